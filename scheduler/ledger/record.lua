-- The record prelude: what claim, renew, finish and abandon share about a job's record and
-- its entries. It follows the lease prelude and, like it, only defines functions.
--
-- All times are milliseconds since the epoch, by Redis' clock unless a host reports them.
-- ARGV[1] is the namespace's prefix with its hash tag, ARGV[2] the job; every key below is
-- made from these two, so all of them live in one slot.

local ns, job = ARGV[1], ARGV[2]
local RECORD = ns .. 'job:' .. job
local RUNS, FAILS, SKIPS = RECORD .. ':runs', RECORD .. ':fails', RECORD .. ':skips'
local OPEN = ns .. 'open'
local FAILS_KEPT, SKIPS_KEPT = 20, 256
-- Of a shadow, {NS}~SHADOW:, nothing stays for long. Every heartbeat extends these two.
local shadow = string.find(ns, '}~', 1, true)
local HOSTS_KEPT = shadow and 600000 or 86400000 -- a day
local EPOCH_KEPT = shadow and 600000 or 2592000000 -- 30 days
local FORMAT = 1

-- ask calls a command; a key of another type becomes an error that names it, as the second
-- value. Whatever may hold another type is asked before the script writes anything: an error
-- in the middle of a decision would leave half of it.
local function ask(command, key, ...)
  local v = redis.pcall(command, key, ...)
  if type(v) == 'table' and v.err then
    if string.find(v.err, 'WRONGTYPE', 1, true) then
      v = redis.error_reply('CONFLICT ' .. key .. ' holds another type')
    end
    return nil, v
  end
  return v
end

-- streams_error is the error of the first of these keys that is no stream. Only what will be
-- written is asked: each question costs as much as a small write.
local function streams_error(...)
  for i = 1, select('#', ...) do
    local _, err = ask('XLEN', (select(i, ...)))
    if err then return err end
  end
end

-- A record of a newer major format is not ours to judge: the caller must not claim the job.
local function version_error(v)
  if tonumber(string.match(v, '^%d+') or 0) > FORMAT then
    return redis.error_reply('VERSION ' .. RECORD .. ' has format ' .. v .. ', this host knows ' .. FORMAT)
  end
end

-- record_read returns the record as a table, empty when there is none.
local function record_read()
  local flat, err = ask('HGETALL', RECORD)
  if err then return nil, err end
  local r = {}
  for i = 1, #flat, 2 do r[flat[i]] = flat[i + 1] end
  if r.v then err = version_error(r.v) end
  return r, err
end

-- record_some is record_read of what a finish looks at.
local function record_some(run)
  local par = 'par:' .. run
  local v, err = ask('HMGET', RECORD, 'v', 'run_id', 'run_token', 'run_state', 'runs', 'wait_tick', par)
  if err then return nil, err end
  if v[1] then err = version_error(v[1]) end
  return { v = v[1], run_id = v[2], run_token = v[3], run_state = v[4], runs = v[5], wait_tick = v[6], [par] = v[7] }, err
end

-- epoch returns the random id that this Redis was given by the first script that found none.
-- Another id than last time tells a daemon that Redis forgot everything. It begins with the
-- instant it was given: whoever reads a record knows that nothing older can be in it.
local EPOCH = ns .. 'epoch'
local function epoch(id, now)
  local v, err = get_string(EPOCH)
  if err then return nil, err end
  if not v then
    v = int(now) .. '-' .. id
    redis.call('SET', EPOCH, v, 'PX', EPOCH_KEPT)
  end
  return v
end

local function epoch_born(v) return tonumber(string.match(v, '^%d+') or 0) end

local function run_key(run) return ns .. 'run:' .. run end

-- drop_run deletes what is kept of a run besides its entries.
local function drop_run(run)
  redis.call('DEL', run_key(run), ns .. 'out:' .. run)
end

-- note writes fields of a run's own key, which may have expired meanwhile.
local function note(run, expire, ...)
  redis.call('HSET', run_key(run), ...)
  redis.call('PEXPIRE', run_key(run), expire)
end

-- given_up leaves the mark that makes a claim of this run lose which still lies unread in a
-- connection. It has the field that every start writes, with nothing in it.
local MARK_KEPT = 600000 -- longer than a request can lie in a connection
local function given_up(run)
  drop_run(run)
  note(run, MARK_KEPT, 'job', '')
end

-- add_run appends a flat list of fields to the job's runs and returns the entry's id. Without
-- expire the stream keeps the expiry that it has.
local function add_run(fields, expire)
  local id, err = ask('XADD', RUNS, '*', unpack(fields))
  if not err and expire then redis.call('PEXPIRE', RUNS, expire) end
  return id, err
end

local function id_before(a, b)
  local am, as = string.match(a, '^(%d+)-(%d+)$')
  local bm, bs = string.match(b, '^(%d+)-(%d+)$')
  am, as, bm, bs = tonumber(am), tonumber(as), tonumber(bm), tonumber(bs)
  return am < bm or (am == bm and as < bs)
end

local function field(entry, name)
  local f = entry[2]
  for i = 1, #f, 2 do
    if f[i] == name then return f[i + 1] end
  end
end

local function oldest(stream)
  return redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
end

-- add_fail appends to the job's failures what add_run appended under the id `at`, keeps the
-- last FAILS_KEPT, and returns the new entry's id. Failures may be kept longer than runs, or
-- shorter: whichever list drops a run last deletes its keys, and `at` tells which that is.
local function add_fail(fields, at, expire)
  fields[#fields + 1] = 'at'
  fields[#fields + 1] = at
  local id = redis.call('XADD', FAILS, '*', unpack(fields))
  redis.call('PEXPIRE', FAILS, expire)
  if redis.call('XLEN', FAILS) > FAILS_KEPT then
    local e, r = oldest(FAILS), oldest(RUNS)
    redis.call('XDEL', FAILS, e[1])
    if not r or id_before(field(e, 'at'), r[1]) then drop_run(field(e, 'run')) end
  end
  return id
end

local FAILURE = { failed = true, timed_out = true, lost = true }

-- trim_runs drops the oldest runs until `keep` are left, once there are a quarter more: reading
-- entries is the dear part of it. Count is how many have a start entry; it returns the new count.
-- A run's end goes as soon as it is the oldest entry after its start has gone; an end that never
-- had a start here (Redis forgot it) is not hurried.
local function trim_runs(count, keep)
  if count <= keep + math.floor(keep / 4) then return count end
  count = math.min(count, redis.call('XLEN', RUNS)) -- the stream may have expired
  local dropping = count > keep
  while dropping do
    local gone, keys = {}, {}
    for _, e in ipairs(redis.call('XRANGE', RUNS, '-', '+', 'COUNT', 32)) do
      local start = field(e, 'ev') == 'start'
      dropping = not start or count > keep
      if not dropping then break end
      gone[#gone + 1] = e[1]
      if start then
        count = count - 1
      else
        local f = FAILURE[field(e, 'outcome')] and oldest(FAILS)
        if not f or id_before(e[1], field(f, 'at')) then
          local run = field(e, 'run')
          keys[#keys + 1] = run_key(run)
          keys[#keys + 1] = ns .. 'out:' .. run
        end
      end
    end
    if #gone == 0 then return count end
    redis.call('XDEL', RUNS, unpack(gone))
    if #keys > 0 then redis.call('DEL', unpack(keys)) end
  end
  return count
end

-- add_skip appends one entry about ticks nobody ran, from first to last. It returns its id.
local function add_skip(outcome, first, last, count, reason, expire, more)
  local f = { 'outcome', outcome, 'tick', int(first), 'reason', reason }
  if count > 1 then
    f[#f + 1] = 'until'; f[#f + 1] = int(last)
    f[#f + 1] = 'count'; f[#f + 1] = int(count)
  end
  for _, v in ipairs(more or {}) do f[#f + 1] = v end
  local id = redis.call('XADD', SKIPS, 'MAXLEN', '~', SKIPS_KEPT, '*', unpack(f))
  redis.call('PEXPIRE', SKIPS, expire)
  return id
end

-- The fields every entry of a run carries, from the record. An end is complete without its
-- start, which may have been trimmed.
local function run_fields(r, ev)
  return { 'ev', ev, 'run', r.run_id, 'tick', r.run_tick, 'kind', r.run_kind, 'host', r.run_host,
    'lock', r.run_name, 'lease', r.run_lock, 'token', r.run_fence, 'won', r.run_since,
    'definition', r.run_def, 'reruns', r.run_reruns }
end

-- add_lost records that a run's lease ended without an outcome. The run's own host may still
-- report one, or give the run back: the run's key says which entries that replaces.
local function add_lost(r, now, expire)
  local f = run_fields(r, 'end')
  for _, v in ipairs({ 'outcome', 'lost', 'ended', int(now),
    'reason', 'the lease ended and ' .. r.run_host .. ' reported no outcome' }) do
    f[#f + 1] = v
  end
  local at = add_run(f, expire)
  note(r.run_id, expire, 'lost', at, 'fail', add_fail(f, at, expire))
  redis.pcall('PUBLISH', ns .. 'events', 'lost ' .. job .. ' ' .. r.run_id .. ' ' .. r.run_host)
end

-- drop_lost takes back what add_lost wrote, by the ids in the run's key.
local function drop_lost(at, fail)
  if at then redis.call('XDEL', RUNS, at) end
  if fail then redis.call('XDEL', FAILS, fail) end
end

-- rerunnable tells whether the newest run ended with its host and may be run once more.
local function rerunnable(r)
  return (r.run_state == 'lost' or r.run_state == 'interrupted')
    and r.run_kind ~= 'manual' and (tonumber(r.run_reruns) or 0) == 0
end

-- freed hints to whoever waits for the lock. Publishing may be forbidden to this user: a hint
-- must not undo what was written.
local function freed(lock)
  if type(redis.pcall('GETDEL', lock .. ':wait')) == 'string' then
    redis.pcall('PUBLISH', ns .. 'events', 'free ' .. job)
  end
end
