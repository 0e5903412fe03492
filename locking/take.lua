-- take: one try to take a lock for a token that its caller brings, and may bring again. Safe to repeat.
--
-- KEYS  1 the lock  2 its fence
-- ARGV  1 ownership token  2 ttl in ms  3 floor: the highest fencing token the caller knows
--       4 how long the fence is remembered, in ms  5 holder: who, free text
-- Reply as acquire's
local ttl = tonumber(ARGV[2])
local lease, err, mine = lease_acquire(KEYS[1], KEYS[2], tonumber(ARGV[4]), ARGV[1], ttl, tonumber(ARGV[3]), ARGV[5])
if err then return err end
if not mine then return { '0', lease.fence, int(lease.left), lease.holder } end
if lease.ttl ~= ttl then lease_resize(KEYS[1], ARGV[1], ttl) end
return { '1', lease.fence }
