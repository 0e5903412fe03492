-- finish: gives the lease back and records how the run ended. The lease goes first: a
-- server that is out of memory refuses the entry, but the lock is free.
--
-- KEYS  1 the lease's key  2 the record
-- ARGV  1 prefix  2 job  3 run  4 token  5 expire  6 keep  7 outcome  8 ended  9 output
--       10 "1" if something of the run may be alive: its lease is left to expire
--       11… the entry's fields, as they are appended
-- Reply { 1 if the lease was still the caller's, waiting tick }
--
-- Sent again after a lost reply it changes nothing. An outcome that comes after the run was
-- marked lost replaces that in the history, and a rerun that has not begun is off, unless the
-- outcome is itself one that is run again.
local run, token = ARGV[3], ARGV[4]
local expire, keep, outcome, ended, output = ARGV[5], tonumber(ARGV[6]), ARGV[7], ARGV[8], ARGV[9]
local held, err, r
if ARGV[10] == '1' then
  local l = lease_peek(KEYS[1]) -- what is no lease is not the caller's
  held = l and l.token == token
else
  held, err = lease_release(KEYS[1], token)
  if err then return err end
  freed(KEYS[1])
end

r, err = record_some(run)
if err then return err end
if FAILURE[outcome] then
  err = streams_error(FAILS)
  if err then return err end
end
local own = r.run_id == run and r.run_token == token
local running = own and r.run_state == 'running'
local lost, fail, repeated
if not running then
  local kept
  kept, err = ask('HMGET', run_key(run), 'ended', 'lost', 'fail')
  if err then return err end
  lost, fail = kept[2], kept[3]
  repeated = kept[1] or (own and r.run_state ~= 'lost')
end
local reply = { held and '1' or '0', r.wait_tick or '' }
if repeated then return reply end

-- The entry first: it is what may be refused, and then nothing else was written.
local f = { 'ev', 'end', 'outcome', outcome, 'ended', ended, unpack(ARGV, 11) }
if not held then
  f[#f + 1] = 'late'
  f[#f + 1] = int(redis_time())
end
-- A run that the record knows as running has its start in the stream, and both have an expiry that
-- hosts put off daily.
local renewed = expire
if running then renewed = nil end
local at, marked, stored
at, err = add_run(f, renewed)
if err then return err end
if output ~= '' then
  stored, err = ask('SET', ns .. 'out:' .. run, output, 'PX', expire, 'NX')
  if not err and not stored then err = redis.error_reply('CONFLICT ' .. ns .. 'out:' .. run .. ' is there already') end
end
if not err then marked, err = ask('HSET', run_key(run), 'job', job, 'ended', ended) end
if err then
  redis.call('XDEL', RUNS, at)
  if stored then redis.call('DEL', ns .. 'out:' .. run) end
  return err
end
if marked == 2 then redis.call('PEXPIRE', run_key(run), expire) end -- it had expired: this made it anew
drop_lost(lost, fail)
if FAILURE[outcome] then add_fail(f, at, expire) end
if r.v then
  if r['par:' .. run] then redis.call('HDEL', RECORD, 'par:' .. run) end
  local runs = tonumber(r.runs) or 0
  local left = trim_runs(runs, keep)
  if left ~= runs then redis.call('HSET', RECORD, 'runs', int(left)) end
  if own then
    -- Lost by its own host's word or by another's, interrupted: both may be run again.
    local crashed = outcome == 'interrupted' or outcome == 'lost'
    redis.call('HSET', RECORD, 'run_state', crashed and outcome or 'ended')
  end
  if renewed then redis.call('PEXPIRE', RECORD, expire) end
end
return reply
