-- release: deletes the caller's lease by comparing the token first, or leaves it to expire soon
-- where it has to be held a while longer. Safe to repeat.
--
-- KEYS  1 the lock  2 the note that somebody waits, and the channel on which that one is told
-- ARGV  1 ownership token  2 how long it is held on, in ms; 0: it is deleted
-- Reply '1' done  '0' the lock is free, or not the caller's
local keep = tonumber(ARGV[2])
local done, err
if keep > 0 then
  done, err = lease_renew(KEYS[1], ARGV[1], keep)
else
  done, err = lease_release(KEYS[1], ARGV[1])
  if done then lease_freed(KEYS[2], KEYS[2], '') end
end
if err then return err end
return done and '1' or '0'
