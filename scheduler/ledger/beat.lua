-- beat: a host's heartbeat, and all it has to know of the fleet, in one round trip.
--
-- KEYS  1 the hosts
-- ARGV  1 prefix  2 -  3 host  4 what the host says of itself  5 gone after, in ms
--       6 a random id for the epoch  7 the newest manual request that this host looked at
-- Reply { now, epoch, what the host's entry was before, drain, paused, hosts, requests, open }
local now = redis_time()
local HOSTS, host = KEYS[1], ARGV[3]
local before, drain, paused, requests, open, forgot, err
before, err = ask('HGET', HOSTS, host)
if err then return err end
drain, err = ask('HGETALL', ns .. 'drain')
if err then return err end
paused, err = ask('HGETALL', ns .. 'paused')
if err then return err end
requests, err = ask('XRANGE', ns .. 'requests', '(' .. ARGV[7], '+', 'COUNT', 100)
if err then return err end
open, err = ask('SMEMBERS', OPEN)
if err then return err end
forgot, err = epoch(ARGV[6], now)
if err then return err end

redis.call('PEXPIRE', ns .. 'epoch', EPOCH_KEPT)
redis.call('HSET', HOSTS, host, int(now) .. '|' .. ARGV[4])
redis.call('PEXPIRE', HOSTS, HOSTS_KEPT)
local hosts = {}
local flat = redis.call('HGETALL', HOSTS)
for i = 1, #flat, 2 do
  local beat = tonumber(string.match(flat[i + 1], '^%d+') or 0)
  if now - beat > tonumber(ARGV[5]) then
    redis.call('HDEL', HOSTS, flat[i])
  else
    hosts[#hosts + 1] = flat[i]
    hosts[#hosts + 1] = flat[i + 1]
  end
end
return { int(now), forgot, before or '', drain, paused, hosts, requests, open }
