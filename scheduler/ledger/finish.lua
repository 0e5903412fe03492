-- finish: gives the lease back and records how the run ended. The lease goes first: a
-- server that is out of memory refuses the entry, but the lock is free.
--
-- KEYS  1 the lease's key  2 the record
-- ARGV  1 prefix  2 job  3 run  4 token  5 expire  6 keep  7 outcome  8 ended  9 output
--       10… the entry's fields, as they are appended
-- Reply { 1 if the lease was still the caller's, now, waiting tick }
--
-- Sent again after a lost reply it changes nothing. An outcome that comes after the run was
-- marked lost replaces that in the history, and a rerun that has not begun is off, unless the
-- outcome is itself one that is run again.
local run, token = ARGV[3], ARGV[4]
local expire, keep, outcome, ended, output = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7], ARGV[8], ARGV[9]
local released, err = lease_release(KEYS[1], token)
if err then return err end
freed(KEYS[1], released)
local now = redis_time()

local r
r, err = record_read()
if err then return err end
err = streams_error(RUNS, FAILS)
if err then return err end
local kept, _
kept, err = ask('HMGET', run_key(run), 'ended', 'lost', 'fail')
if err then return err end
if output ~= '' then
  _, err = ask('STRLEN', ns .. 'out:' .. run)
  if err then return err end
end

local own = r.run_id == run and r.run_token == token
local open = own and (r.run_state == 'running' or r.run_state == 'lost')
local repeated = kept[1] or (own and not open)
if not repeated then
  drop_lost(kept[2], kept[3])
  if output ~= '' then redis.call('SET', ns .. 'out:' .. run, output, 'PX', int(expire)) end
  local f = { 'ev', 'end', 'outcome', outcome, 'ended', ended }
  for i = 10, #ARGV do f[#f + 1] = ARGV[i] end
  if not released then
    f[#f + 1] = 'late'
    f[#f + 1] = int(now)
  end
  local at = add_run(f, expire)
  if FAILURE[outcome] then add_fail(f, at, expire) end
  note(run, expire, 'job', job, 'ended', int(now))
  if next(r) then
    redis.call('HDEL', RECORD, 'par:' .. run)
    redis.call('HSET', RECORD, 'runs', int(trim_runs(tonumber(r.runs) or 0, keep)))
    if own then
      -- Lost by its own host's word or by another's, interrupted: both may be run again.
      local crashed = outcome == 'interrupted' or outcome == 'lost'
      redis.call('HSET', RECORD, 'run_state', crashed and outcome or 'ended')
    end
    redis.call('PEXPIRE', RECORD, int(expire))
  end
end
return { released and '1' or '0', int(now), r.wait_tick or '' }
