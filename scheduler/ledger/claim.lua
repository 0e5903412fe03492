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
local ttl, floor, fence_ttl, expire = tonumber(ARGV[17]), tonumber(ARGV[18]), tonumber(ARGV[19]), tonumber(ARGV[20])
local overlap, misfire, on_crash, max_parallel = ARGV[21], ARGV[22], ARGV[23], tonumber(ARGV[24])
local request, force, barred, patience = ARGV[25], ARGV[26] == '1', ARGV[27], tonumber(ARGV[28])
local taken, taken_bit = ARGV[29], ARGV[30]
local counted, counts = ARGV[31], ARGV[32]
local manual = kind == 'manual'

local now = redis_time()
local at = int(now)
local r, err = record_read()
if err then return err end
local held
held, err = lease_read(lock)
if err then return err end
local existed = next(r) ~= nil
local forgot = epoch(run)

local function answer(...)
  return { select(1, ...), at, forgot, select(2, ...) }
end

-- What is written of the record is collected here and goes out in one HSET.
local writes = {}
local function set(name, value)
  writes[#writes + 1] = name
  writes[#writes + 1] = value
  r[name] = value
end
local function flush()
  if #writes > 0 then
    redis.call('HSET', RECORD, 'v', r.v or FORMAT, unpack(writes))
    redis.call('PEXPIRE', RECORD, int(expire))
    writes = {}
  end
end

-- Whoever waits for its turn reads this bitmap once an instant, instead of each record.
local function mark_taken()
  if taken ~= '' then
    redis.call('SETBIT', taken, taken_bit, 1)
    redis.call('PEXPIRE', taken, 120000)
  end
end

local function cursor() return tonumber(r.tick) or 0 end
local function decide_tick()
  if tick > cursor() then set('tick', int(tick)) end
  mark_taken()
end

local function won(lease, found)
  return answer('won', lease.fence, found, r.run_reruns or '0', r.run_since or at)
end

local function grant()
  return lease_grant(lock, fence_key, fence_ttl, token, ttl, floor, host .. '/' .. job .. '/' .. run)
end

-- 1. Mine? ------------------------------------------------------------------------------
if held and held.token == token then
  redis.call('PEXPIRE', lock, int(ttl))
  return won(held, r.run_found or '')
end
if r.run_id == run then
  if r.run_state == 'running' and r.run_token == token and not held then
    -- The host is still asking, so it never started: this is the same grant, made anew.
    held, err = grant()
    if err then return err end
    set('run_fence', held.fence)
    flush()
    return won(held, r.run_found or '')
  end
  return answer('already', r.tick or '0')
end

-- 2. When? ------------------------------------------------------------------------------
-- What this daemon knows decided carries the cursor over a flush of Redis.
if known > cursor() and known <= now + 1000 then
  set('tick', int(known))
  flush()
end
if cursor() > now + 1000 and not manual then return answer('future', r.tick) end
if not manual and due > now then return answer('early', int(due - now)) end

local far = 9007199254740991
local pauses = {}
local function add_pause(from, till)
  from = tonumber(from)
  if from then pauses[#pauses + 1] = { from = from, till = tonumber(till) or far } end
end
local fleet_pause = redis.call('HMGET', ns .. 'paused', 'from', 'until')
add_pause(r.pause_from, r.pause_until)
add_pause(fleet_pause[1], fleet_pause[2])
local paused
for _, p in ipairs(pauses) do
  if p.from <= now and now < p.till then paused = p end
end
if paused and not manual then return answer('paused', int(paused.till)) end
if redis.call('HEXISTS', ns .. 'drain', host) == 1 then return answer('drained') end

-- 3. The old run ------------------------------------------------------------------------
-- Runs of an `allow` job hold leases of their own; the record's run is only the newest, so
-- each is kept in a field too until its end is known. `parallel` counts those that live.
local parallel = 0
for name, value in pairs(r) do
  local id = string.match(name, '^par:(.+)$')
  if id then
    local o = cjson.decode(value)
    local l = lease_read(o.run_lock)
    if l and l.token == o.run_token then
      parallel = parallel + 1
    else
      if not (r.run_id == id and r.run_state ~= 'running') then add_lost(o, now, expire) end
      redis.call('HDEL', RECORD, name)
      if r.run_id == id and r.run_state == 'running' then set('run_state', 'lost') end
    end
  end
end
local held_key = lock
if r.run_state == 'running' then
  local l
  if r.run_lock == lock then
    l = held
  else
    l, err = lease_read(r.run_lock)
    if err then return err end
  end
  if not (l and l.token == r.run_token) then
    add_lost(r, now, expire)
    set('run_state', 'lost')
  elseif r.run_lock ~= lock and not (overlap == 'allow' and r.run_parallel == '1') then
    held = l -- a deploy changed the lock's name under a run: its old lease still excludes
    held_key = r.run_lock
  end
end
flush()

-- The holder's name, job and run out of the lease, and since when.
local function holder()
  local h, j, id = string.match(held.holder, '^([^/]*)/([^/]*)/(.*)$')
  local from = id and redis.call('HGET', ns .. 'run:' .. id, 'since')
  return h or held.holder, j or '', id or '', from or '0'
end

-- Whoever holds the lease will say when it is free.
local function wait_for_it()
  redis.call('SET', held_key .. ':wait', host, 'PX', int(held.left + 1000))
end

local function held_answer(decided)
  local h, j, id, from = holder()
  return answer('held', decided, h, j, id, from, int(held.left), held.fence)
end

local function win(found)
  -- The run's key without the run in the record: this claim was given up, and its abandon
  -- overtook it (a server that was frozen reads its connections in any order).
  if redis.call('EXISTS', ns .. 'run:' .. run) == 1 then return answer('already', r.tick or '0') end
  local lease, e = grant()
  if e then return e end
  if r.run_state == 'open' and found ~= 'open' then
    add_skip('missed', tonumber(r.run_tick), 0, 1, 'given back by ' .. r.run_host .. ', and not taken again in time', expire)
  elseif on_crash == 'rerun' and rerunnable(r) and found ~= 'rerun' then
    add_skip('skipped', tonumber(r.run_tick), 0, 1, 'its rerun was superseded by a newer run', expire)
  end
  local waiting = tonumber(r.wait_tick)
  if waiting and not manual and waiting <= tick then
    if waiting < tick then
      add_skip('skipped', waiting, 0, 1, 'superseded by a newer tick', expire)
    end
    redis.call('HDEL', RECORD, 'wait_tick')
  end
  if found == 'rerun' then kind = 'rerun' end
  set('run_reruns', found == 'rerun' and '1' or '0')
  set('run_id', run)
  set('run_token', token)
  set('run_tick', int(tick))
  set('run_kind', kind)
  set('run_lock', lock)
  set('run_name', lock_name)
  set('run_fence', lease.fence)
  set('run_host', host)
  set('run_def', definition)
  set('run_state', 'running')
  set('run_since', at)
  set('run_found', found)
  set('run_parallel', overlap == 'allow' and '1' or '0')
  set('runs', int((tonumber(r.runs) or 0) + 1))
  if overlap == 'allow' then
    set('par:' .. run, cjson.encode({ run_id = run, run_token = token, run_tick = r.run_tick, run_kind = kind,
      run_host = host, run_name = lock_name, run_lock = lock, run_fence = lease.fence, run_since = at,
      run_def = definition, run_reruns = r.run_reruns }))
  end
  if not manual then decide_tick() end
  flush()
  local f = run_fields(r, 'start')
  if request ~= '' then
    f[#f + 1] = 'request'
    f[#f + 1] = request
  end
  add_run(f, expire)
  redis.call('HSET', ns .. 'run:' .. run, 'job', job, 'lock', lock, 'host', host, 'since', at)
  redis.call('PEXPIRE', ns .. 'run:' .. run, int(expire))
  if found == 'open' then redis.call('SREM', ns .. 'open', job) end
  return won(lease, found)
end

-- 4. Manual -----------------------------------------------------------------------------
-- Whoever asked waits for the answer in the ledger, so a refusal is an entry too.
if manual then
  local function refused(reason)
    add_skip('skipped', tick, 0, 1, reason, expire, { 'kind', 'manual', 'request', request })
  end
  if redis.call('XDEL', ns .. 'requests', request) == 0 then return answer('already', r.tick or '0') end
  if now - tick > patience then
    refused('not taken within ' .. int(patience / 1000) .. ' s')
    return answer('late', 'skipped')
  end
  if barred ~= '' and not force then
    refused(barred)
    return answer('paused', int(far))
  end
  if paused and not force then
    refused('paused')
    return answer('paused', int(paused.till))
  end
  if held then
    refused('held by ' .. holder())
    return held_answer('skipped')
  end
  return win('')
end

-- 5. Decided? ---------------------------------------------------------------------------
-- `since` keeps ticks from before the job, or this version of its schedule, from being due.
if r.sched == sched and tonumber(r.since) then
  since = math.min(since, tonumber(r.since))
end
if r.sched ~= sched then set('sched', sched) end
if r.since ~= int(since) then set('since', int(since)) end

-- Undecided ticks in (base, prev], cut at pauses: what lies in one was skipped, else missed.
local base = math.max(cursor(), since)
local ranges = {}
table.sort(pauses, function(a, b) return a.from < b.from end)
for _, p in ipairs(pauses) do
  if p.till <= now and p.till > base then
    if p.from > base then ranges[#ranges + 1] = { base, p.from, 'missed' } end
    ranges[#ranges + 1] = { math.max(base, p.from), p.till, 'skipped' }
    base = p.till
  end
end
local undecided = tick > base
local found = ''
if r.run_state == 'open' and r.run_tick == int(tick) then
  found = 'open'
elseif r.wait_tick == int(tick) then
  found = 'wait'
elseif on_crash == 'rerun' and rerunnable(r) and r.run_tick == int(tick) then
  found = 'rerun'
elseif not undecided then
  flush()
  return answer('already', r.tick or '0')
end

-- 6. Gap --------------------------------------------------------------------------------
-- Only the caller can count ticks. It is told the ranges and asks again with their counts;
-- if they are still the same, they become entries, whatever is decided below.
if existed and undecided and found == '' then
  if base < prev then
    if misfire == 'all' and back > 0 and back <= prev then
      flush()
      return answer('behind', int(base))
    end
    ranges[#ranges + 1] = { base, prev, 'missed' }
  end
  if #ranges > 0 then
    local asked = {}
    for _, g in ipairs(ranges) do asked[#asked + 1] = int(g[1]) .. ':' .. int(g[2]) end
    asked = table.concat(asked, ',')
    if asked ~= counted then
      flush()
      return answer('count', asked)
    end
    local i = 0
    for first, last, n in string.gmatch(counts, '(%d+):(%d+):(%d+)') do
      i = i + 1
      if tonumber(n) > 0 then
        add_skip(ranges[i][3], tonumber(first), tonumber(last), tonumber(n),
          ranges[i][3] == 'skipped' and 'paused' or 'no host claimed it in time', expire)
      end
    end
    set('tick', int(math.max(cursor(), prev, base)))
  end
end

-- 7. Late? ------------------------------------------------------------------------------
if deadline > 0 and now > deadline and found ~= 'wait' and found ~= 'rerun' then
  if misfire == 'skip' then
    add_skip('missed', tick, 0, 1, 'no host claimed it before its start deadline', expire)
    if found == 'open' then
      set('run_state', 'ended')
      redis.call('SREM', ns .. 'open', job)
    end
    decide_tick()
    flush()
    return answer('late', 'missed')
  end
  flush()
  return answer('late', '')
end

-- 8. Held? ------------------------------------------------------------------------------
local full = overlap == 'allow' and parallel >= max_parallel
if held or full then
  if kind == 'misfire' or found == 'wait' or found == 'rerun' then
    if held then
      wait_for_it()
      flush()
      return held_answer('')
    end
    flush()
    return answer('held', '', '', job, '', '0', '0', '0')
  end
  if held and (overlap == 'queue' or overlap == 'replace') then
    local waiting = tonumber(r.wait_tick)
    if waiting and waiting < tick then
      add_skip('skipped', waiting, 0, 1, 'superseded by a newer tick', expire)
    end
    if not waiting or waiting < tick then set('wait_tick', int(tick)) end
    if found == 'open' then
      set('run_state', 'ended')
      redis.call('SREM', ns .. 'open', job)
    end
    if overlap == 'replace' and r.run_state == 'running' and r.run_fence == held.fence then
      redis.call('SET', held_key .. ':end', 'replaced by tick ' .. int(tick), 'PX', int(held.left + ttl))
    end
    wait_for_it()
    decide_tick()
    flush()
    return held_answer('waiting')
  end
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
  if found == 'open' then
    set('run_state', 'ended')
    redis.call('SREM', ns .. 'open', job)
  end
  decide_tick()
  flush()
  if held then return held_answer('skipped') end
  return answer('held', 'skipped', '', job, '', '0', '0', '0')
end

-- 9. Won --------------------------------------------------------------------------------
return win(found)
