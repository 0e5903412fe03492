-- read: what a guarded key holds. It writes nothing.
--
-- KEYS  1 the guarded key
-- Reply { '1', token, value or nil }, or { '1', '0' } if there is nothing
--       NOVALUE ... the key is no guarded value
local token, value, err = value_read(KEYS[1])
if err then return err end
return { '1', token or '0', value }
