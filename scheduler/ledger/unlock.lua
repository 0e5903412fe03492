-- unlock: asks whoever holds a lock to end and release it, or takes the lease away from one that did
-- not.
--
-- KEYS  1 the lease's key
-- ARGV  1 prefix  2 the lock  3 who asks, and why  4 the fencing token of the lease that is taken away, or ''
-- Reply { 'free' }
--       { 'asked' or 'deleted', fencing token, ms left, ttl in ms, holder } of the lease there is, or was
--
-- A lease with another token is another's: it is told, and left alone.
local lease, err = lease_peek(KEYS[1])
if err then return err end
if not lease then return { 'free' } end
local answer = 'asked'
if ARGV[4] == lease.fence then
  lease_release(KEYS[1], lease.token)
  freed(KEYS[1])
  answer = 'deleted'
elseif ARGV[4] == '' and not string.find(lease.holder, '^[^/]*/[^/]+/') then
  -- Not of a run of a job, which is cancelled. The token says whom it is meant for, to whoever holds the
  -- lock by then.
  redis.call('SET', KEYS[1] .. ':end', lease.token .. ' ' .. ARGV[3], 'PX', ms(lease.left + lease.ttl))
end
return { answer, lease.fence, int(lease.left), int(lease.ttl), lease.holder }
