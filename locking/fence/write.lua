-- write: compares the token, then raises it and writes the value, in one step. Safe to repeat with the
-- same token and value after a lost reply.
--
-- KEYS  1 the guarded key
-- ARGV  1 token, 1 to 2^53 - 1  2 '1' if a value is written, '0' if the token alone is raised
--       3 the value
-- Reply { '1', token, value or nil } done
--       { '0', the highest token seen } stale; nothing was changed
--       NOVALUE ... the key is no guarded value; nothing was changed
local token, value, err = value_read(KEYS[1])
if err then return err end
if token and tonumber(token) > tonumber(ARGV[1]) then return { '0', token } end
-- One command writes both, and it is the first: a server without memory refuses it, and nothing has
-- changed.
if ARGV[2] == '1' then
  value = ARGV[3]
  redis.call('HSET', KEYS[1], 'token', ARGV[1], 'value', value)
elseif token ~= ARGV[1] then
  redis.call('HSET', KEYS[1], 'token', ARGV[1])
end
-- A token that expires lets the past in again. Who wants a key to go away deletes it, or lets it
-- expire after its last write.
redis.call('PERSIST', KEYS[1])
return { '1', ARGV[1], value }
