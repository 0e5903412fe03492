-- leave: takes a host's heartbeat out, unless another daemon by that name beats by now.
--
-- KEYS  1 the hosts
-- ARGV  1 prefix  2 -  3 host  4 the id of the daemon that leaves
-- Reply { 1 if it was taken out }
local beat = redis.call('HGET', KEYS[1], ARGV[3])
if not beat or not string.find(beat, '"id":"' .. ARGV[4] .. '"', 1, true) then return { '0' } end
redis.call('HDEL', KEYS[1], ARGV[3])
return { '1' }
