-- renew: extends the caller's lease by comparing the token first. It never makes a lease.
--
-- KEYS  1 the lock
-- ARGV  1 ownership token  2 ttl in ms, that of the grant
-- Reply '1' renewed  '0' a definite no: the lock is free, or not the caller's
local renewed, err = lease_renew(KEYS[1], ARGV[1], tonumber(ARGV[2]))
if err then return err end
return renewed and '1' or '0'
