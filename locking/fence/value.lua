-- The guarded values: a hash of token and value, without expiry. The token may be there alone: it was
-- raised before anything was written. Other fields are kept.

-- value_read returns the token and the value, both nil if there is nothing, or an error as the third.
-- Whatever else is found is never overwritten: what a token might protect is somebody's data.
local function value_read(key)
  local v = redis.pcall('HMGET', key, 'token', 'value')
  if v.err then
    if string.find(v.err, 'WRONGTYPE', 1, true) then
      return nil, nil, redis.error_reply('NOVALUE ' .. key .. ' holds another type')
    end
    return nil, nil, v
  end
  local token = v[1]
  if not token then
    if redis.call('EXISTS', key) == 1 then
      return nil, nil, redis.error_reply('NOVALUE ' .. key .. ' is a hash without a token')
    end
    return nil
  end
  if not string.match(token, '^[1-9]%d*$') or not is_fence(token) then
    return nil, nil, redis.error_reply('NOVALUE ' .. key .. ' holds no fencing token')
  end
  return token, v[2]
end
