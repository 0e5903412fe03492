-- claim: one try by one host to win one tick. It decides on the lease (who runs now) and on
-- the record (what was decided of the ticks) in one step, in the order of design: mine,
-- when, the old run, manual, decided, gap, late, held, won.
--
-- KEYS  1 the lease's key  2 the lock's fence  3 the record
-- ARGV  see the locals; times in ms, 0 where there is none
-- Reply { answer, now, epoch, ... }, every element a string.
--
-- It may be sent any number of times with the same run and token: whatever it answered
-- before, and whether or not that reply arrived, the tick is run at most once.
local lock, fence_key = KEYS[1], KEYS[2]
local tick, due, prev, back = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local deadline, known, since = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local run, token, host, kind, lock_name = ARGV[10], ARGV[11], ARGV[12], ARGV[13], ARGV[14]
local definition, sched = ARGV[15], ARGV[16]
local ttl, floor, fence_ttl, expire = tonumber(ARGV[17]), tonumber(ARGV[18]), tonumber(ARGV[19]), ARGV[20]
local overlap, misfire, on_crash, max_parallel = ARGV[21], ARGV[22], ARGV[23], tonumber(ARGV[24])
-- The last ones are left out when nobody needs them: each argument costs as much as a lookup.
local taken, taken_bit = ARGV[25] or '', ARGV[26]
local counted, counts = ARGV[27], ARGV[28]
local request, force, barred, patience = ARGV[29] or '', ARGV[30] == '1', ARGV[31], tonumber(ARGV[32])
local manual, asker = kind == 'manual', ''
local REQUESTS = ns .. 'requests'

local now = redis_time()
local at = int(now)
local r, held, forgot, drained, err
r, err = record_read()
if err then return err end
-- One question for what is nearly always there, one for what nearly never is: each call costs more
-- than its command. MGET takes a key of another type for none. What is missing is asked for by
-- itself, but for the lock of a job of which nothing is going: the grant finds out.
local kept = redis.call('MGET', lock, fence_key, EPOCH)
if kept[1] then
  held, err = lease_of(lock, kept[1])
  lease_step(lock, held)
elseif r.run_state ~= 'ended' then
  held, err = get_string(lock)
end
if err then return err end
local fleet_pause = {}
if redis.call('EXISTS', ns .. 'drain', ns .. 'paused') > 0 then
  drained, err = ask('HEXISTS', ns .. 'drain', host)
  if err then return err end
  fleet_pause, err = ask('HMGET', ns .. 'paused', 'from', 'until', 'who', 'why', 'before')
  if err then return err end
end
-- One that a host has for itself is paused under its own name, or on every host under theirs.
local every_host, every_pause = string.match(job, '^(.*@).'), {}
if every_host then
  every_pause, err = ask('HMGET', ns .. 'job:' .. every_host .. '*', 'pause_from', 'pause_until', 'pause_who', 'pause_why', 'pause_before')
  if err then return err end
end
forgot = kept[3]
if not forgot then
  forgot, err = epoch(run, now)
  if err then return err end
end

local function answer(...)
  return { select(1, ...), at, forgot, select(2, ...) }
end

-- What changes of the record is collected here and goes out in one HSET. From one run of a job
-- to its next most of it stays as it is.
local writes, seen = {}, r.v
local function set(name, value)
  if r[name] ~= value then
    writes[#writes + 1] = name
    writes[#writes + 1] = value
    r[name] = value
  end
end
-- A win need not put off the expiry of a record that has one: hosts do so daily.
local function flush(winning)
  if #writes > 0 then
    if not seen then
      writes[#writes + 1] = 'v'
      writes[#writes + 1] = FORMAT
    end
    redis.call('HSET', RECORD, unpack(writes))
    if not (winning and seen) then redis.call('PEXPIRE', RECORD, expire) end
    writes, seen = {}, true
  end
end

local function cursor() return tonumber(r.tick) or 0 end
local function decide_tick()
  if tick > cursor() then set('tick', int(tick)) end
  -- Whoever waits for its turn reads this bitmap once an instant, instead of each record. It
  -- is a hint: without it they claim, and are told.
  if taken ~= '' and type(redis.pcall('SETBIT', taken, taken_bit, 1)) == 'number' then
    redis.call('PEXPIRE', taken, 120000)
  end
end

local function won(fence, run_of)
  return answer('won', fence, run_of.run_found or '', run_of.run_reruns or '0', run_of.run_since or at)
end

local holder_text = host .. '/' .. job .. '/' .. run

-- Appends a run's start; its id is kept, for who gives the run back. An error left nothing. The
-- second value tells that the claim was given up, and its abandon overtook it: a server that was
-- frozen reads its connections in any order. What is left of the run's key says so.
local function add_start(o)
  local f = run_fields(o, 'start')
  local n = { 'job', job, 'lock', lock, 'since', o.run_since }
  if request ~= '' then
    f[#f + 1] = 'request'; f[#f + 1] = request
    f[#f + 1] = 'who'; f[#f + 1] = asker
    n[#n + 1] = 'request'; n[#n + 1] = request
  end
  local first = expire
  if o.runs ~= '1' then first = nil end -- the stream has its expiry
  local id, e = add_run(f, first)
  if e then return e end
  local key, added = run_key(run), nil
  added, e = ask('HSET', key, 'start', id, unpack(n))
  if e then
    redis.call('XDEL', RUNS, id)
    return e
  end
  redis.call('PEXPIRE', key, expire)
  return nil, added <= #n / 2, id
end

-- 1. Mine? ------------------------------------------------------------------------------
-- The record knows the newest run whole; older ones that overlap it are in fields of their own.
local PAR = 'par:' .. run
local mine = r.run_id == run and r or (r[PAR] and cjson.decode(r[PAR]))
if held and held.token == token then
  redis.call('PEXPIRE', lock, int(ttl))
  return won(held.fence, mine or {})
end
if mine then
  if held or mine.run_token ~= token or (mine == r and r.run_state ~= 'running') then
    return answer('already', r.tick or '0')
  end
  -- The host is still asking, so it never started: this is the same grant, made anew.
  err = streams_error(RUNS)
  if err then return err end
  held, err = lease_grant(lock, fence_key, fence_ttl, token, ttl, floor, holder_text, kept[2])
  if err then return err end
  local start = redis.call('HGET', run_key(run), 'start') or '0-1'
  local old = redis.call('XRANGE', RUNS, start, start)[1]
  if old then asker = field(old, 'who') or '' end
  redis.call('XDEL', RUNS, start)
  if mine == r then
    set('run_fence', held.fence)
    set('run_since', at)
  end
  mine.run_fence, mine.run_since = held.fence, at
  if r[PAR] then
    local o = cjson.decode(r[PAR])
    o.run_fence, o.run_since = held.fence, at
    set(PAR, cjson.encode(o))
  end
  flush()
  add_start(mine)
  return won(held.fence, mine)
end

-- 2. When? ------------------------------------------------------------------------------
-- What this daemon knows decided carries the cursor over a flush of Redis.
if known > cursor() and known <= now + 1000 then
  if not r.tick then set('gap_from', int(epoch_born(forgot))) end
  set('tick', int(known))
  flush()
end
if cursor() > now + 1000 and not manual then return answer('future', r.tick) end
due = math.max(due, tick)
if not manual and due > now then return answer('early', int(due - now)) end

local far = 9007199254740991
local pauses, paused = {}, nil
local function add_pause(from, till, who, why)
  from = tonumber(from)
  till = tonumber(till) or far
  if not from or till <= from then return end
  local p = { from = from, till = till, reason = 'paused' }
  if who and who ~= '' then p.reason = 'paused by ' .. who .. (why and why ~= '' and ': ' .. why or '') end
  pauses[#pauses + 1] = p
  if from <= now and now < p.till and (not paused or paused.till < p.till) then paused = p end
end
if r.pause_from then add_pause(r.pause_from, r.pause_until, r.pause_who, r.pause_why) end
for _, p in ipairs({ fleet_pause, every_pause }) do
  if p[1] then add_pause(p[1], p[2], p[3], p[4]) end
  -- Those before it concern a job of which nothing was decided since their end.
  local last_end, earlier = string.match(p[5] or '', '^(%d+)|(.*)$')
  if last_end and tonumber(last_end) > cursor() then
    local ok, list = pcall(cjson.decode, earlier)
    for _, e in ipairs(ok and type(list) == 'table' and list or {}) do add_pause(e.from, e['until'], e.who, e.why) end
  end
end
if paused and not manual then return answer('paused', int(paused.till)) end
if drained == 1 then return answer('drained') end

-- 3. The old run ------------------------------------------------------------------------
-- Runs of an `allow` job hold leases of their own; the record's run is only the newest, so
-- each is kept in a field too until its end is known. `parallel` counts those that live.
local held_key, parallel, ended, on_lock = lock, 0, {}, held
for name, value in pairs(r.pars and r or {}) do
  if string.sub(name, 1, 4) == 'par:' then
    local o = cjson.decode(value)
    local l, e = lease_read(o.run_lock)
    if e then return e end
    if l and l.token == o.run_token then
      parallel = parallel + 1
      -- A deploy took `allow` back under its runs: they still exclude.
      if overlap ~= 'allow' then held, held_key = l, o.run_lock end
    else
      ended[#ended + 1] = o
    end
  end
end
local newest_ended = false
if r.run_state == 'running' then
  local l = on_lock
  if r.run_lock ~= lock then
    l, err = lease_read(r.run_lock)
    if err then return err end
  end
  if not (l and l.token == r.run_token) then
    newest_ended = true
  elseif r.run_lock ~= lock and not (overlap == 'allow' and r.run_parallel == '1') then
    held, held_key = l, r.run_lock -- a deploy changed the lock's name under a run: its old lease excludes
  end
end
if #ended > 0 or newest_ended then
  err = streams_error(RUNS, FAILS)
  if err then return err end
end
for _, o in ipairs(ended) do
  if o.run_id ~= r.run_id then add_lost(o, now, expire) end
  redis.call('HDEL', RECORD, 'par:' .. o.run_id)
end
if newest_ended then
  add_lost(r, now, expire)
  set('run_state', 'lost')
end
flush()

-- The holder's name, job and run out of the lease, and since when.
local function holder()
  local h, j, id = string.match(held.holder, '^([^/]*)/([^/]*)/(.*)$')
  local from = id and ask('HGET', run_key(id), 'since')
  return h or held.holder, j or '', id or '', from or '0'
end

-- Whoever holds the lease will say when it is free.
local function wait_for_it()
  redis.call('SET', held_key .. ':wait', host, 'PX', int(held.left + 1000))
end

local function held_answer(decided)
  if not held then return answer('held', decided, '', job, '', '0', '0', '0') end
  local h, j, id, from = holder()
  return answer('held', decided, h, j, id, from, int(held.left), held.fence)
end

-- The tick that was given back is decided, or overwritten: nobody need look for it any more.
local function close_open()
  if r.run_state == 'open' then set('run_state', 'ended') end
  if r.given then
    redis.call('SREM', OPEN, job)
    redis.call('HDEL', RECORD, 'given')
  end
end

-- 4. Manual -----------------------------------------------------------------------------
-- Whoever asked waits for the answer in the ledger, so a refusal is an entry too. The request
-- goes last: the first write must be one that a server out of memory refuses.
if manual then
  local asked
  asked, err = ask('XRANGE', REQUESTS, request, request)
  if err then return err end
  err = streams_error(RUNS, SKIPS)
  if err then return err end
  if #asked == 0 then return answer('already', r.tick or '0') end
  asker = field(asked[1], 'who') or ''
  local function refused(reason, h, id)
    add_skip('skipped', tick, 0, 1, reason, expire,
      { 'kind', 'manual', 'request', request, 'who', asker, 'holder', h or '', 'holder_run', id or '' })
    redis.call('XDEL', REQUESTS, request)
  end
  if now - tick > patience then
    refused('not taken within ' .. int(patience / 1000) .. ' s')
    return answer('late', 'skipped')
  end
  if barred ~= '' and not force then
    refused(barred)
    return answer('paused', int(far))
  end
  if paused and not force then
    refused(paused.reason)
    return answer('paused', int(paused.till))
  end
  if held then
    local h, _, id = holder()
    refused('held by ' .. h, h, id)
    return held_answer('skipped')
  end
end

local found = ''
if not manual then
  -- 5. Decided? ---------------------------------------------------------------------------
  -- `since` keeps ticks from before the job, or this version of its schedule, from being due. One
  -- that lies ahead is of a clock that ran ahead and was set right: it guards nothing but now.
  since = math.min(since, now)
  if r.sched == sched and tonumber(r.since) then
    since = math.min(since, tonumber(r.since))
  end
  if r.sched ~= sched then set('sched', sched) end
  if r.since ~= int(since) then set('since', int(since)) end

  -- Undecided ticks in (gap, prev], cut at pauses: what lies in one was skipped, else missed. A
  -- pause is [from, till): what is due when it begins lies in it, what is due when it ends does not.
  -- Of ticks from before Redis forgot nobody knows, whatever cursor a host has brought since.
  local base = math.max(cursor(), since)
  local gap = math.max(base, tonumber(r.gap_from) or r.tick and 0 or epoch_born(forgot))
  local ranges = {}
  if #pauses > 1 then table.sort(pauses, function(a, b) return a.from < b.from end) end
  for _, p in ipairs(pauses) do
    if p.till <= now then
      local first, last = p.from - 1, p.till - 1
      base = math.max(base, last)
      if last > gap then
        if first > gap then ranges[#ranges + 1] = { gap, first, 'missed' } end
        ranges[#ranges + 1] = { math.max(gap, first), last, 'skipped', p.reason }
        gap = last
      end
    end
  end
  local undecided = tick > base
  if r.run_state == 'open' and r.run_tick == int(tick) then
    found = 'open'
  elseif r.wait_tick == int(tick) then
    found = 'wait'
  elseif on_crash == 'rerun' and rerunnable(r) and r.run_tick == int(tick) then -- not of the race: 'supersede'
    found = 'rerun'
  elseif not undecided then
    flush()
    return answer('already', r.tick or '0')
  end

  -- 6. Gap --------------------------------------------------------------------------------
  -- Only the caller can count ticks. It is told the ranges and asks again with their counts;
  -- if they are still the same, they become entries, whatever is decided below.
  if undecided and found == '' then
    if gap < prev then
      if misfire == 'all' and back > 0 and back <= prev then
        flush()
        return answer('behind', int(gap))
      end
      ranges[#ranges + 1] = { gap, prev, 'missed' }
    end
    if #ranges > 0 then
      local asked = {}
      for _, g in ipairs(ranges) do asked[#asked + 1] = int(g[1]) .. ':' .. int(g[2]) end
      asked = table.concat(asked, ',')
      if asked ~= counted then
        flush()
        return answer('count', asked)
      end
      err = streams_error(SKIPS)
      if err then return err end
      local i = 0
      for first, last, n, more in string.gmatch(counts, '(%d+):(%d+):(%d+)(%+?)') do
        i = i + 1
        if tonumber(n) > 0 then
          add_skip(ranges[i][3], tonumber(first), tonumber(last), tonumber(n),
            (ranges[i][4] or 'no host claimed it in time') .. (more ~= '' and ' (there are more: so many were counted)' or ''), expire)
        end
      end
      set('tick', int(math.max(cursor(), prev, gap)))
    end
  end
  flush()

  -- 7. Late? ------------------------------------------------------------------------------
  if deadline > 0 and now > deadline and found ~= 'wait' and found ~= 'rerun' then
    if misfire ~= 'skip' then return answer('late', '') end
    err = streams_error(SKIPS)
    if err then return err end
    local why = (barred or '') ~= '' and barred or 'no host claimed it before its start deadline'
    add_skip('missed', tick, 0, 1, why, expire)
    if found == 'open' then close_open() end
    decide_tick()
    flush()
    return answer('late', 'missed')
  end

  -- 8. Held? ------------------------------------------------------------------------------
  local full = overlap == 'allow' and parallel >= max_parallel
  if held or full then
    for _, suffix in ipairs(held and { ':wait', ':end' } or {}) do
      local _, e = ask('STRLEN', held_key .. suffix)
      if e then return e end
    end
    err = streams_error(SKIPS)
    if err then return err end
    if kind == 'misfire' or found == 'wait' or found == 'rerun' then
      if held then wait_for_it() end
      return held_answer('')
    end
    local decided = 'skipped'
    local waiting = tonumber(r.wait_tick)
    if held and (overlap == 'queue' or overlap == 'replace') and waiting and waiting > tick then
      -- Given back, and a newer one waits already: only the newest does.
      add_skip('skipped', tick, 0, 1, 'superseded by a newer tick', expire)
    elseif held and (overlap == 'queue' or overlap == 'replace') then
      decided = 'waiting'
      if waiting then add_skip('skipped', waiting, 0, 1, 'superseded by a newer tick', expire) end
      set('wait_tick', int(tick))
      if overlap == 'replace' and r.run_state == 'running' and r.run_token == held.token then
        -- Meant for this holder alone: its token says so to whoever holds the lock by then.
        redis.call('SET', held_key .. ':end', held.token .. ' replaced by tick ' .. int(tick), 'PX', int(held.left + ttl))
      end
      wait_for_it()
    else
      -- Ticks skipped one after the other for the same holder are one entry, rewritten.
      local from, count, by = tick, 1, held and held.fence or 'full'
      if found == '' and r.skip_id and r.skip_by == by and tonumber(r.skip_until) == prev then
        from, count = tonumber(r.skip_from), tonumber(r.skip_count) + 1
        redis.call('XDEL', SKIPS, r.skip_id)
      end
      local reason, more = 'max_parallel runs are going', nil
      if held then
        local h, j, id = holder()
        reason = j == job and 'the run before is still going on ' .. h or 'the lock is held by ' .. h .. (j ~= '' and ' for ' .. j or '')
        more = { 'holder', h, 'holder_run', id }
      end
      set('skip_id', add_skip('skipped', from, tick, count, reason, expire, more))
      set('skip_by', by)
      set('skip_from', int(from))
      set('skip_until', int(tick))
      set('skip_count', int(count))
    end
    if found == 'open' then close_open() end
    decide_tick()
    flush()
    return held_answer(decided)
  end
end

-- 9. Won --------------------------------------------------------------------------------
local rerun_off = found ~= 'rerun' and on_crash ~= 'skip' and rerunnable(r)
local given_back = r.run_state == 'open' and found ~= 'open'
local waiting = tonumber(r.wait_tick)
local lease
if rerun_off or given_back or waiting then
  err = streams_error(SKIPS)
  if err then return err end
end
lease, err = lease_grant(lock, fence_key, fence_ttl, token, ttl, floor, holder_text, kept[2])
if err then return err end
local o = { run_id = run, run_token = token, run_tick = int(tick), run_kind = found == 'rerun' and 'rerun' or kind,
  run_lock = lock, run_name = lock_name, run_fence = lease.fence, run_host = host, run_def = definition,
  run_state = 'running', run_since = at, run_found = found,
  run_reruns = found == 'rerun' and '1' or '0', run_parallel = overlap == 'allow' and '1' or '0',
  runs = int((tonumber(r.runs) or 0) + 1) }
local gone, start
err, gone, start = add_start(o)
if err or gone then lease_release(lock, token) end
if err then return err end
if gone then
  redis.call('XDEL', RUNS, start)
  given_up(run)
  return answer('already', r.tick or '0')
end
if found == 'rerun' then
  local old = {}
  for name, value in pairs(r) do
    if string.sub(name, 1, 4) == 'run_' then old[name] = value end
  end
  note(r.run_id, expire, 'settled', '1')
  note(run, expire, 'before', cjson.encode(old))
elseif given_back then
  add_skip('missed', tonumber(r.run_tick), 0, 1,
    'given back by ' .. r.run_host .. ' (' .. (r.run_reason or '') .. '), and not taken again in time', expire)
elseif rerun_off then
  note(r.run_id, expire, 'settled', '1')
  add_skip('skipped', tonumber(r.run_tick), 0, 1, 'its rerun was superseded by a newer run', expire)
end
if waiting and not manual and waiting <= tick then
  if waiting < tick then
    add_skip('skipped', waiting, 0, 1, 'superseded by a newer tick', expire)
  end
  redis.call('HDEL', RECORD, 'wait_tick')
end
close_open()
for name, value in pairs(o) do set(name, value) end
if overlap == 'allow' then
  set('pars', '1') -- there are such fields: else nobody looks
  o.runs, o.run_state, o.run_parallel = nil, nil, nil
  set(PAR, cjson.encode(o))
end
if not manual then decide_tick() end
flush(true)
if manual then redis.call('XDEL', REQUESTS, request) end
return won(lease.fence, r)
