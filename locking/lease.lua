-- The lease prelude: the one place where a lock is read, granted, renewed and released.
--
-- It is put in front of every script that touches a lock: the library's own (acquire,
-- renew, release, query) and the ledger's (claim, renew, finish, abandon). It defines
-- functions only and calls nothing by itself. No shebang: a script with one is refused
-- whole on a server that is out of memory, and renew and release must still pass there.
--
-- A lock is a string with an expiry: TOKEN|FENCE|TTL_MS|HOLDER. TOKEN is the 128-bit
-- random ownership token, FENCE the fencing token of this grant, TTL_MS the lease's
-- length, HOLDER free text that says who. While somebody waits, WANTED follows. A value of another shape or type, or one
-- without expiry, was not written by us: it is reported as a conflict, never overwritten.
--
-- Every function returns an error reply as its second value instead of raising it, so
-- that the caller decides; a raised error after a write would leave half of a decision.

local WANTED = '\n'
local MAX_FENCE = 9007199254740992 -- 2^53: above it a Lua number loses digits

-- Integers leave Lua through a format: tostring turns microseconds into 1.7959687289555e+15. %d
-- is several times faster than %.0f, and is 32 bits wide on some machines.
local function int(n)
  n = tonumber(n)
  if n < 2147483648 and n > -2147483648 then return string.format('%d', n) end
  if n > 0 and n < 2147483648000000 then
    return string.format('%d%06d', math.floor(n / 1000000), n % 1000000)
  end
  return string.format('%.0f', n)
end

-- A length of time for PEXPIRE and PX, never below 1: "PEXPIRE key 0" deletes the key and
-- answers 1, which would read as renewed.
local function ms(n)
  return int(math.max(1, n))
end

-- Redis' clock, in milliseconds and in microseconds. Every host is judged by it. A script has
-- one instant: servers from 7.0 on freeze it themselves.
local clock
local function redis_time()
  if not clock then
    local t = redis.call('TIME')
    clock = tonumber(t[1]) * 1000000 + tonumber(t[2])
  end
  return math.floor(clock / 1000), clock
end

-- A GET that answers a key of another type with an error that names the key.
local function get_string(key)
  local v = redis.pcall('GET', key)
  if type(v) == 'table' and v.err then
    if string.find(v.err, 'WRONGTYPE', 1, true) then
      return nil, redis.error_reply('CONFLICT ' .. key .. ' holds another type')
    end
    return nil, v
  end
  return v
end

-- Whether a string of digits is a fencing token. Of longer ones no number can be made that is
-- exact, and on some servers none at all.
local function is_fence(digits)
  return #digits <= 16 and tonumber(digits) < MAX_FENCE
end

-- lease_of makes a lease of a lock's value, or an error. It is nil if the lock expired meanwhile. A
-- remaining time above the lease's own length means that Redis' clock stepped back; it is told cut
-- to the length, and marked as stepped.
local function lease_of(lock, v)
  local token, fence, ttl, holder = string.match(v, '^(%x+)|(%d+)|(%d+)|(.-)\n?$')
  if not token or not is_fence(fence) then
    return nil, redis.error_reply('CONFLICT ' .. lock .. ' holds a value that is not a lease')
  end
  local left = redis.call('PTTL', lock)
  if left == -1 then
    return nil, redis.error_reply('CONFLICT ' .. lock .. ' has no expiry')
  end
  if left == -2 then return nil end
  ttl = tonumber(ttl)
  return { token = token, fence = fence, ttl = ttl, holder = holder,
    left = math.min(left, ttl), stepped = left > ttl }
end

-- lease_peek returns the lease on a lock, nil when it is free, or an error. It writes nothing.
local function lease_peek(lock)
  local v, err = get_string(lock)
  if err or not v then return nil, err end
  return lease_of(lock, v)
end

-- lease_step takes a step back of Redis' clock off the key, so that it does not prolong a dead
-- holder's lease. A living one loses nothing: what is left is the whole length.
local function lease_step(lock, lease)
  if lease and lease.stepped then
    redis.call('PEXPIRE', lock, ms(lease.ttl))
  end
end

-- lease_read is lease_peek for a caller that may write: it mends what a step has done.
local function lease_read(lock)
  local lease, err = lease_peek(lock)
  lease_step(lock, lease)
  return lease, err
end

-- fence_of makes a number of a fence's value, or an error.
local function fence_of(fence_key, v)
  if not string.match(v, '^%d+$') or not is_fence(v) then
    return nil, redis.error_reply('CONFLICT ' .. fence_key .. ' holds no fencing token')
  end
  return tonumber(v)
end

-- fence_read returns the highest fencing token granted, as a number; 0 if Redis knows none.
local function fence_read(fence_key)
  local v, err = get_string(fence_key)
  if err then return nil, err end
  if not v then return 0 end
  return fence_of(fence_key, v)
end

-- lease_grant writes a new lease on a lock that the caller found free. Its fencing token is above
-- every one granted before, also when the counter was lost (then by the clock) or the clock stepped
-- back (then by the counter), and above the caller's floor. Kept is the fence's value where the
-- caller has read it.
--
-- The fence is written first: a script that dies between the two leaves no lock without its token,
-- and on a full server it is this write that is refused, before anything is granted. Whoever read
-- several keys at once took a lock of another type for none; then the fence becomes what it was.
local function lease_grant(lock, fence_key, fence_ttl, token, ttl, floor, holder, kept)
  local stored, err
  if kept then
    stored, err = fence_of(fence_key, kept)
  else
    stored, err = fence_read(fence_key)
  end
  if err then return nil, err end
  local _, us = redis_time()
  local fence = math.max(stored + 1, us, floor + 1)
  if fence >= MAX_FENCE then
    return nil, redis.error_reply('CONFLICT ' .. fence_key .. ' has no fencing token left below 2^53')
  end
  fence = int(fence)
  redis.call('SET', fence_key, fence, 'PX', ms(fence_ttl))
  if not redis.call('SET', lock, token .. '|' .. fence .. '|' .. int(ttl) .. '|' .. holder, 'PX', ms(ttl), 'NX') then
    if stored > 0 then
      redis.call('SET', fence_key, int(stored), 'PX', ms(fence_ttl))
    else
      redis.call('DEL', fence_key)
    end
    return nil, redis.error_reply('CONFLICT ' .. lock .. ' holds another type')
  end
  return { token = token, fence = fence, ttl = ttl, holder = holder, left = ttl }
end

-- lease_acquire takes the lock if it is free. The first value is the lease that now
-- stands on it; the third tells whether it is the caller's. Asked again with the same
-- token after a lost reply it answers with the same fence and a full lease.
local function lease_acquire(lock, fence_key, fence_ttl, token, ttl, floor, holder)
  local kept, held, err = redis.call('MGET', lock, fence_key), nil, nil
  if kept[1] then
    held, err = lease_of(lock, kept[1])
    if err then return nil, err, false end
    lease_step(lock, held)
  end
  if held and held.token == token then
    redis.call('PEXPIRE', lock, ms(held.ttl)) -- Renew may have given it another length since
    held.left = held.ttl
    return held, nil, true
  end
  if held then return held, nil, false end
  held, err = lease_grant(lock, fence_key, fence_ttl, token, ttl, floor, holder, kept[2])
  return held, err, held ~= nil
end

-- lease_renew extends the caller's own lease by ttl, or by its own length; it never makes one. True
-- if it was the caller's. A lock that is gone, or somebody else's, or no lease at all, is a definite
-- no. A ttl above the lease's length would be taken for a step of the clock.
local function lease_renew(lock, token, ttl)
  local v = redis.pcall('GET', lock)
  if type(v) ~= 'string' or string.sub(v, 1, #token + 1) ~= token .. '|' then
    if type(v) == 'table' and v.err and not string.find(v.err, 'WRONGTYPE', 1, true) then
      return false, v
    end
    return false
  end
  local length = ttl and ms(ttl) or string.match(v, '^%x+|%d+|([1-9]%d*)|')
  return length ~= nil and redis.call('PEXPIRE', lock, length) == 1
end

-- lease_resize makes the caller's own lease ttl long, from now on and with every renewal. True if it
-- was the caller's. The renewal goes first: a full server refuses no command that adds to what a
-- script has written already.
local function lease_resize(lock, token, ttl)
  local ok, err = lease_renew(lock, token)
  if not ok then return false, err end
  local v = redis.call('GET', lock)
  local before, length, after = string.match(v, '^(%x+|%d+|)(%d+)(|.*)$')
  if tonumber(length) ~= ttl then
    redis.call('SET', lock, before .. int(ttl) .. after, 'PX', ms(ttl))
  end
  return true
end

-- lease_release deletes the caller's own lease and nobody else's. True if it was there; the third
-- value tells whether somebody waits for it.
local function lease_release(lock, token)
  local v = redis.pcall('GET', lock)
  if type(v) ~= 'string' or string.sub(v, 1, #token + 1) ~= token .. '|' then
    if type(v) == 'table' and v.err and not string.find(v.err, 'WRONGTYPE', 1, true) then
      return false, v
    end
    return false
  end
  return redis.call('DEL', lock) == 1, nil, string.sub(v, -1) == WANTED
end

-- lease_wanted notes on a lock that somebody waits for it, so that its release is told. Nothing hangs
-- on the note: a server that has no room for it does without.
local function lease_wanted(lock)
  local v = redis.pcall('GET', lock)
  if type(v) == 'string' and string.sub(v, -1) ~= WANTED then
    redis.pcall('SET', lock, v .. WANTED, 'KEEPTTL')
  end
end
