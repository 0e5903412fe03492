-- renew: extends a run's lease if it is still the caller's, and answers with what others
-- ask of the run meanwhile: a cancel, an end for whoever waits, a pause of the job.
--
-- KEYS  1 the lease's key  2 the record
-- ARGV  1 prefix  2 job  3 run  4 token  5 ttl in ms
-- Reply { 1 or 0, now, epoch, cancel, end, pause_from, pause_until }
local now = redis_time()
local ok, err = lease_renew(KEYS[1], ARGV[4], tonumber(ARGV[5]))
if err then return err end
local pause = redis.call('HMGET', RECORD, 'pause_from', 'pause_until')
return { ok and '1' or '0', int(now), redis.call('GET', ns .. 'epoch') or '',
  redis.call('HGET', ns .. 'run:' .. ARGV[3], 'cancel') or '',
  redis.call('GET', KEYS[1] .. ':end') or '', pause[1] or '', pause[2] or '' }
