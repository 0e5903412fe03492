-- abandon: gives back a win that was not used, so nothing ran. The record becomes what the
-- win found: an open tick, a waiting one, one to be rerun. It is no crash and no run, and
-- nothing of it stays in the history.
--
-- KEYS  1 the lease's key  2 the record
-- ARGV  1 prefix  2 job  3 run  4 token  5 expire  6 tick  7 reason
-- Reply { 1 if the tick was given back, now }
--
-- It works when the lease has expired meanwhile, and when nothing was won at all (an unknown
-- claim that the caller gives up on): then there is nothing to restore.
local run, token, expire, tick, reason = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local now = redis_time()
local _, err = lease_release(KEYS[1], token)
if err then return err end
freed(KEYS[1])

local r, kept
r, err = record_read()
if err then return err end
err = streams_error(RUNS, FAILS, SKIPS)
if err then return err end
kept, err = ask('HMGET', run_key(run), 'start', 'lost', 'fail', 'request', 'before', 'settled', 'ended')
if err then return err end
_, err = ask('SCARD', OPEN)
if err then return err end
local start, lost, fail, request, before, settled = kept[1], kept[2], kept[3], kept[4], kept[5], kept[6]
if kept[7] then return { '0', int(now) } end -- it ran after all, and its outcome stands

given_up(run)
local own = r.run_id == run and r.run_token == token and (r.run_state == 'running' or r.run_state == 'lost')
if not start and not own then return { '0', int(now) } end -- never won, or given back already

drop_lost(lost, fail)
if start and redis.call('XDEL', RUNS, start) == 1 and r.runs then redis.call('HINCRBY', RECORD, 'runs', -1) end
redis.call('HDEL', RECORD, 'par:' .. run)
local manual = request or (own and r.run_kind == 'manual')
if manual then
  add_skip('skipped', tonumber(tick), 0, 1, 'given back: ' .. reason, expire, { 'kind', 'manual', 'request', request or '' })
  if own then redis.call('HSET', RECORD, 'run_state', 'ended', 'run_token', '-') end
  return { own and '1' or '0', int(now) }
end
if not own then
  -- Another run has the slot, so nobody will look at the tick again. There is nothing to add
  -- if that run was its rerun, or if an entry says that there will be none.
  if not settled then
    if before then -- the tick did run, once
      add_skip('skipped', tonumber(tick), 0, 1, 'its rerun was given back, and superseded by a newer run', expire)
    else
      add_skip('missed', tonumber(tick), 0, 1, 'given back: ' .. reason, expire)
    end
  end
  return { '0', int(now) }
end

local given = true
if r.run_found == 'rerun' and before then
  local old = cjson.decode(before)
  for name, value in pairs(old) do redis.call('HSET', RECORD, name, value) end
  redis.call('HDEL', run_key(old.run_id), 'settled')
elseif r.run_found == 'wait' then
  redis.call('HSET', RECORD, 'run_state', 'ended', 'run_token', '-')
  local waiting = tonumber(r.wait_tick)
  if waiting and waiting > tonumber(tick) then
    add_skip('skipped', tonumber(tick), 0, 1, 'superseded by a newer tick', expire)
    given = false
  else
    redis.call('HSET', RECORD, 'wait_tick', tick)
  end
else
  redis.call('HSET', RECORD, 'run_state', 'open', 'run_token', '-', 'run_reason', reason)
end
if given then
  redis.call('HSET', RECORD, 'given', '1')
  redis.call('SADD', OPEN, job)
  redis.call('PEXPIRE', OPEN, expire)
  redis.pcall('PUBLISH', ns .. 'events', 'open ' .. job) -- a tick of every second has not two to wait
end
redis.call('PEXPIRE', RECORD, expire)
return { '1', int(now) }
