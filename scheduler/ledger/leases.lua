-- leases: the leases there are, one page of the keyspace at a time. It writes nothing.
--
-- KEYS  1 any key of the namespace: it says which server of a Cluster
-- ARGV  1 prefix  2 -  3 the page: '0' is the first, and after the last
-- Reply { next page, { name, fencing token, ms left, ttl in ms, holder, … } }
--
-- A key that holds something else is in the list with the token 0, and what is wrong as its holder.
local LOCKS = ns .. 'lock:'
local page = redis.call('SCAN', ARGV[3], 'MATCH', LOCKS .. '*', 'COUNT', 500)
local found = {}
for _, key in ipairs(page[2]) do
  local name = string.sub(key, #LOCKS + 1)
  if not string.find(name, ':fence$') and not string.find(name, ':end$') and not string.find(name, ':wait$') then
    local lease, err = lease_peek(key)
    if lease then
      for _, v in ipairs({ name, lease.fence, int(lease.left), int(lease.ttl), lease.holder }) do found[#found + 1] = v end
    elseif err then
      for _, v in ipairs({ name, '0', '0', '0', err.err }) do found[#found + 1] = v end
    end
  end
end
return { page[1], found }
