-- beat: a host's heartbeat, and all it has to know of the fleet, in one round trip.
--
-- KEYS  1 the hosts
-- ARGV  1 prefix  2 -  3 host  4 what the host says of itself  5 gone after, in ms
--       6 a random id for the epoch  7 the newest manual request that this host looked at
-- Reply { now, epoch, what the host's entry was before, drain, paused, hosts, requests, open }
local now = redis_time()
local host = ARGV[3]
local before = redis.call('HGET', KEYS[1], host) or ''
redis.call('HSET', KEYS[1], host, int(now) .. '|' .. ARGV[4])
local hosts = {}
local flat = redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do
  local beat = tonumber(string.match(flat[i + 1], '^%d+')) or 0
  if now - beat > tonumber(ARGV[5]) then
    redis.call('HDEL', KEYS[1], flat[i])
  else
    hosts[#hosts + 1] = flat[i]
    hosts[#hosts + 1] = flat[i + 1]
  end
end
redis.call('PEXPIRE', KEYS[1], 86400000)
local open = redis.call('SMEMBERS', ns .. 'open')
return { int(now), epoch(ARGV[6]), before,
  redis.call('HGETALL', ns .. 'drain'), redis.call('HGETALL', ns .. 'paused'), hosts,
  redis.call('XRANGE', ns .. 'requests', '(' .. ARGV[7], '+', 'COUNT', 100), open }
