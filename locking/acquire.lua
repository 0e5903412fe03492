-- acquire: one try to take a lock. Safe to repeat with the same token after a lost reply.
--
-- KEYS  1 the lock  2 its fence
-- ARGV  1 ownership token  2 ttl in ms  3 floor: the highest fencing token the caller knows
--       4 how long the fence is remembered, in ms  5 holder: who, free text
--       6 '1' if the caller will wait
-- Reply { '1', fencing token } granted, the lease now lasts the whole ttl
--       { '0', fencing token, ms left, holder } held by another
--       CONFLICT ... a key that is no lease or no fence; nothing was written
local lease, err, mine = lease_acquire(KEYS[1], KEYS[2], tonumber(ARGV[4]), ARGV[1],
  tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[5])
if err then return err end
if mine then return { '1', lease.fence } end
if ARGV[6] == '1' then lease_wanted(KEYS[1]) end
return { '0', lease.fence, int(lease.left), lease.holder }
