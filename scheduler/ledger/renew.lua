-- renew: extends a run's lease if it is still the caller's, and answers with what others
-- ask of the run meanwhile: a cancel, an end for whoever waits, a pause of the job.
--
-- KEYS  1 the lease's key  2 the record
-- ARGV  1 prefix  2 job  3 run  4 token  5 ttl in ms
-- Reply { 1 or 0, now, epoch, cancel, end, pause_from, pause_until }
--
-- A key of another type where a request is looked for is nobody's request: an error there
-- would end a run whose lease is good. The next claim names the key.
local now = redis_time()
local ok, err = lease_renew(KEYS[1], ARGV[4], tonumber(ARGV[5]))
if err then return err end
local pause = ask('HMGET', RECORD, 'pause_from', 'pause_until') or {}
local asked_to_end = get_string(KEYS[1] .. ':end') or ''
if string.sub(asked_to_end, 1, #ARGV[4] + 1) == ARGV[4] .. ' ' then
  asked_to_end = string.sub(asked_to_end, #ARGV[4] + 2)
else
  asked_to_end = '' -- meant for who held the lock before
end
return { ok and '1' or '0', int(now), get_string(ns .. 'epoch') or '',
  ask('HGET', run_key(ARGV[3]), 'cancel') or '',
  asked_to_end, pause[1] or '', pause[2] or '' }
