-- cancel: asks for the end of a run that goes on. Its host is told with the next renewal, which
-- the hint brings about at once.
--
-- KEYS  1 the run
-- ARGV  1 prefix  2 -  3 run  4 who asks, and why
-- Reply { "asked", "ended" or "unknown", now }
--
-- Looking and writing are one step: the key of a run that ends, and is trimmed, in between would
-- come back with nothing but the request in it, and without an expiry.
local run = ARGV[3]
local now = redis_time()
local kept, lease, err
kept, err = ask('HMGET', KEYS[1], 'job', 'lock')
if err then return err end
if (kept[1] or '') == '' then return { 'unknown', int(now) } end
if not kept[2] then return { 'ended', int(now) } end -- all that is known is that its end was reported
lease, err = lease_peek(kept[2])
if err then return err end
if not lease or string.match(lease.holder, '^[^/]*/[^/]*/(.*)$') ~= run then return { 'ended', int(now) } end
redis.call('HSET', KEYS[1], 'cancel', ARGV[4], 'cancel_at', int(now))
redis.pcall('PUBLISH', ns .. 'events', 'cancel ' .. run)
return { 'asked', int(now) }
