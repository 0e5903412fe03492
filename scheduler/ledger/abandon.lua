-- abandon: gives back a win that was not used, so nothing ran. The record becomes what the
-- win found: an open tick, a waiting one, one to be rerun. It is no crash and no run.
--
-- KEYS  1 the lease's key  2 the record
-- ARGV  1 prefix  2 job  3 run  4 token  5 expire  6 tick  7 reason
-- Reply { 1 if the tick was given back, now }
--
-- It works when the lease has expired meanwhile, and when nothing was won at all (an unknown
-- claim that the caller gives up on): then there is nothing to restore.
local run, token, expire, tick, reason = ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[7]
local now = redis_time()
local released, err = lease_release(KEYS[1], token)
if err then return err end
local r
r, err = record_read()
if err then return err end

local own = r.run_id == run and r.run_token == token
if r.run_id == run and r.run_state ~= 'running' and r.run_state ~= 'lost' then
  return { '0', int(now) } -- a repeat: given back already
end

local started = released or own or r['par:' .. run]
if started then
  add_run({ 'ev', 'void', 'run', run, 'tick', tick, 'reason', reason }, expire)
  redis.call('HDEL', RECORD, 'par:' .. run)
end
-- A claim of this run may still lie unread in a connection that was given up: what is left
-- of the run's key makes it lose.
drop_run(run)
redis.call('HSET', ns .. 'run:' .. run, 'abandoned', int(now))
redis.call('PEXPIRE', ns .. 'run:' .. run, 600000)
if not own then
  -- Another run has the slot. If it is for the same tick, that is decided; else this one
  -- is accounted for here, for nobody will look at it again.
  if started and r.run_tick ~= tick then
    add_skip('missed', tonumber(tick), 0, 1, 'given back: ' .. reason, expire)
  end
  return { '0', int(now) }
end

local state, found = 'open', r.run_found
if r.run_kind == 'manual' then
  state = 'ended'
  add_skip('skipped', tonumber(tick), 0, 1, 'given back: ' .. reason, expire, { 'kind', 'manual' })
elseif found == 'rerun' then
  state = 'lost'
elseif found == 'wait' then
  state = 'ended'
  local waiting = tonumber(r.wait_tick)
  if waiting and waiting > tonumber(tick) then
    add_skip('skipped', tonumber(tick), 0, 1, 'superseded by a newer tick', expire)
  else
    redis.call('HSET', RECORD, 'wait_tick', tick)
  end
end
redis.call('HSET', RECORD, 'run_state', state, 'run_reruns', '0', 'run_token', '-')
redis.call('PEXPIRE', RECORD, int(expire))
if state ~= 'ended' or found == 'wait' then redis.call('SADD', ns .. 'open', job) end
return { '1', int(now) }
