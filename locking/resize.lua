-- resize: gives the caller's lease another length, from now on, comparing the token first.
--
-- KEYS  1 the lock
-- ARGV  1 ownership token  2 ttl in ms
-- Reply '1' done  '0' a definite no: the lock is free, or not the caller's
local done, err = lease_resize(KEYS[1], ARGV[1], tonumber(ARGV[2]))
if err then return err end
return done and '1' or '0'
