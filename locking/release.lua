-- release: deletes the caller's lease by comparing the token first. Safe to repeat.
--
-- KEYS  1 the lock
-- ARGV  1 ownership token
-- Reply '1' deleted  '0' the lock is free, or not the caller's
local deleted, err = lease_release(KEYS[1], ARGV[1])
if err then return err end
return deleted and '1' or '0'
