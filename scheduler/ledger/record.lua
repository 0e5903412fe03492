-- The record prelude: what claim, renew, finish and abandon share about a job's record and
-- its entries. It follows the lease prelude and, like it, only defines functions.
--
-- All times are milliseconds since the epoch, by Redis' clock unless a host reports them.
-- ARGV[1] is the namespace's prefix with its hash tag, ARGV[2] the job; every key below is
-- made from these two, so all of them live in one slot.

local ns, job = ARGV[1], ARGV[2]
local RECORD = ns .. 'job:' .. job
local RUNS, FAILS, SKIPS = RECORD .. ':runs', RECORD .. ':fails', RECORD .. ':skips'
local FAILS_KEPT, SKIPS_KEPT = 20, 256
local FORMAT = 1

-- record_read returns the record as a table, empty when there is none. A record of a newer
-- major format is not ours to judge: the caller must not claim the job.
local function record_read()
  local flat = redis.pcall('HGETALL', RECORD)
  if flat.err then
    if string.find(flat.err, 'WRONGTYPE', 1, true) then
      return nil, redis.error_reply('CONFLICT ' .. RECORD .. ' holds another type')
    end
    return nil, flat
  end
  local r = {}
  for i = 1, #flat, 2 do r[flat[i]] = flat[i + 1] end
  if r.v and tonumber(string.match(r.v, '^%d+') or 0) > FORMAT then
    return nil, redis.error_reply('VERSION ' .. RECORD .. ' has format ' .. r.v .. ', this host knows ' .. FORMAT)
  end
  return r
end

-- epoch returns the random id that this Redis was given by the first script that found
-- none. Another value than last time tells a daemon that Redis forgot everything.
local function epoch(id)
  local key = ns .. 'epoch'
  local v = redis.call('GET', key)
  if not v then
    redis.call('SET', key, id)
    v = id
  end
  return v
end

-- add_run appends a flat list of fields to the job's runs.
local function add_run(fields, expire)
  redis.call('XADD', RUNS, '*', unpack(fields))
  redis.call('PEXPIRE', RUNS, int(expire))
end

-- A run's output goes with its last entry. Failures are kept longer than runs, or shorter:
-- whichever list drops the run last deletes its keys, and entry ids say which that is.
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

local function drop_run(run)
  redis.call('DEL', ns .. 'run:' .. run, ns .. 'out:' .. run)
end

local function oldest(stream)
  return redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
end

-- add_fail appends to the job's failures and keeps the last FAILS_KEPT.
local function add_fail(fields, expire)
  redis.call('XADD', FAILS, '*', unpack(fields))
  redis.call('PEXPIRE', FAILS, int(expire))
  if redis.call('XLEN', FAILS) > FAILS_KEPT then
    local e = oldest(FAILS)
    local r = oldest(RUNS)
    redis.call('XDEL', FAILS, e[1])
    if not r or id_before(e[1], r[1]) then drop_run(field(e, 'run')) end
  end
end

local FAILURE = { failed = true, timed_out = true, lost = true }

-- trim_runs drops the oldest runs until `keep` are left; count is how many have a start
-- entry. It returns the new count. The ends of a dropped run go as they become the oldest.
local function trim_runs(count, keep)
  count = math.min(count, redis.call('XLEN', RUNS)) -- the stream may have expired
  while true do
    local e = oldest(RUNS)
    if not e then return 0 end
    local start = field(e, 'ev') == 'start'
    if start and count <= keep then return count end
    redis.call('XDEL', RUNS, e[1])
    if start then
      count = count - 1
    else
      local f = FAILURE[field(e, 'outcome')] and oldest(FAILS)
      if not f or id_before(e[1], f[1]) then drop_run(field(e, 'run')) end
    end
  end
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
  redis.call('PEXPIRE', SKIPS, int(expire))
  return id
end

-- The fields every entry of a run carries, from the record. An end is complete without its
-- start, which may have been trimmed.
local function run_fields(r, ev)
  return { 'ev', ev, 'run', r.run_id, 'tick', r.run_tick, 'kind', r.run_kind, 'host', r.run_host,
    'lock', r.run_name, 'lease', r.run_lock, 'token', r.run_fence, 'won', r.run_since,
    'definition', r.run_def, 'reruns', r.run_reruns }
end

-- add_lost records that a run's lease ended without an outcome. The run's own host may
-- still report one: history then takes that.
local function add_lost(r, now, expire)
  local f = run_fields(r, 'end')
  for _, v in ipairs({ 'outcome', 'lost', 'ended', int(now),
    'reason', 'the lease ended and ' .. r.run_host .. ' reported no outcome' }) do
    f[#f + 1] = v
  end
  add_run(f, expire)
  add_fail(f, expire)
end

-- rerunnable tells whether the newest run ended with its host and may be run once more.
local function rerunnable(r)
  return (r.run_state == 'lost' or r.run_state == 'interrupted')
    and r.run_kind ~= 'manual' and (tonumber(r.run_reruns) or 0) == 0
end
