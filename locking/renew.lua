-- renew: extends the caller's lease by its own length, comparing the token first. It never makes a
-- lease. The length is the one that stands in the lock: a renewal that was sent before the lease
-- was given another length, and arrives after, must not take that back.
--
-- KEYS  1 the lock
-- ARGV  1 ownership token
-- Reply '1' renewed  '0' a definite no: the lock is free, or not the caller's
local renewed, err = lease_renew(KEYS[1], ARGV[1])
if err then return err end
return renewed and '1' or '0'
