-- renew: extends the caller's leases, each by its own length, comparing the token first. It never makes
-- a lease. The length is the one that stands in the lock: a renewal that was sent before the lease
-- was given another length, and arrives after, must not take that back.
--
-- KEYS  the locks
-- ARGV  the ownership token of each
-- Reply one character for each: '1' renewed  '0' a definite no: the lock is free, or not the caller's
--       '?' an error, which is the reply where one lock is asked for
local out = {}
for i, lock in ipairs(KEYS) do
  local renewed, err = lease_renew(lock, ARGV[i])
  if err and #KEYS == 1 then return err end
  out[i] = err and '?' or renewed and '1' or '0'
end
return table.concat(out)
