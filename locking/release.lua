-- release: deletes the caller's lease by comparing the token first, or leaves it to expire soon
-- where it has to be held a while longer. Safe to repeat.
--
-- KEYS  1 the lock
-- ARGV  1 ownership token  2 how long it is held on, in ms; 0: it is deleted
--
-- Those who wait are told on the channel that is named after the lock.
-- Reply '1' done  '0' the lock is free, or not the caller's
local keep = tonumber(ARGV[2])
local done, err, wanted
if keep > 0 then
  done, err = lease_renew(KEYS[1], ARGV[1], keep)
else
  done, err, wanted = lease_release(KEYS[1], ARGV[1])
  -- Publishing may be forbidden to this user: a hint must not undo what was written.
  if wanted then redis.pcall('PUBLISH', KEYS[1] .. ':freed', '') end
end
if err then return err end
return done and '1' or '0'
