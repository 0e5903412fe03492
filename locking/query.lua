-- query: who holds a lock. It writes nothing, so that a replica may answer it, and tells no
-- ownership token, which is the right to release.
--
-- KEYS  1 the lock  2 its fence
-- ARGV  1 an ownership token, or nothing
-- Reply { '1', fencing token, ms left, holder } held, '2' instead of '1' by that token
--       { '0', highest fencing token granted that Redis remembers, or '0' } free
--       CONFLICT ... a key that is no lease or no fence
local lease, err = lease_peek(KEYS[1])
if err then return err end
if lease then return { lease.token == ARGV[1] and '2' or '1', lease.fence, int(lease.left), lease.holder } end
local fence
fence, err = fence_read(KEYS[2])
if err then return err end
return { '0', int(fence) }
