-- reset: takes back a cursor that lies ahead of Redis' clock, as after a clock that ran ahead
-- was set right: until then no tick of the job can be claimed. So does it with the beginning of
-- its schedule.
--
-- ARGV  1 prefix  2 job
-- Reply { 1 if it was taken back, now, the cursor before }
local now = redis_time()
local r, err = record_read()
if err then return err end
local cursor = tonumber(r.tick) or 0
if (tonumber(r.since) or 0) > now then redis.call('HSET', RECORD, 'since', int(now)) end
if cursor <= now then return { '0', int(now), int(cursor) } end
redis.call('HSET', RECORD, 'tick', int(now))
return { '1', int(now), int(cursor) }
