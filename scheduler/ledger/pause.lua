-- pause: holds a job's ticks back, or the whole fleet's, or lets them go again. Ticks inside a
-- pause, [from, until), are not due; the first claim after it records them as skipped.
--
-- ARGV  1 prefix  2 job, JOB@* for those of a job on every host, or "-" for all  3 "pause", "resume" or "restore"  4 how long in ms,
--       0: until resumed  5 who  6 why  7 expire of the record  8 restore: since when
-- Reply { 1 if it changed anything, now, from, until }
local all, every = ARGV[2] == '-', string.sub(ARGV[2], -2) == '@*'
local _, wrong = ask('HLEN', ns .. 'paused')
if wrong then return wrong end
local length, who, why, expire = tonumber(ARGV[4]), ARGV[5], ARGV[6], tonumber(ARGV[7])
local now = redis_time()
local FLEET = ns .. 'paused'
local key = all and ns .. 'paused' or RECORD
local prefix = all and '' or 'pause_'
local cursor = 0
if not all then
  local r, err = record_read()
  if err then return err end
  cursor = tonumber(r.tick) or 0
end
local was = redis.call('HMGET', key, prefix .. 'from', prefix .. 'until')
local from, till = tonumber(was[1]), tonumber(was[2])
local paused = from and till and from <= now and now < till

-- Every heartbeat brings the pauses of single jobs too, so that a Redis that forgot can be told.
-- What has ended by itself goes with the next word about any pause.
local function list(value)
  local flat = redis.call('HGETALL', FLEET)
  for i = 1, #flat, 2 do
    local ok, p = pcall(cjson.decode, string.sub(flat[i], 1, 4) == 'job:' and flat[i + 1] or '')
    if ok and type(p) == 'table' and (tonumber(p['until']) or now + 1) <= now then redis.call('HDEL', FLEET, flat[i]) end
  end
  if all then return end
  if value then redis.call('HSET', FLEET, 'job:' .. job, value) else redis.call('HDEL', FLEET, 'job:' .. job) end
end

if ARGV[3] == 'resume' then
  if not paused then return { '0', int(now), '0', '0' } end
  redis.call('HSET', key, prefix .. 'until', int(now))
  list(nil)
  return { '1', int(now), int(from), int(now) }
end

-- The pauses of many jobs that have ended, the newest first. Each job records its own ticks of them,
-- and one that is due once a month does so weeks later.
local ENDED_KEPT = 8
local function keep_ended(from, till)
  local by = redis.call('HMGET', key, prefix .. 'who', prefix .. 'why', prefix .. 'before')
  local ok, before = pcall(cjson.decode, string.match(by[3] or '', '^%d+|(.*)$') or '')
  before = ok and type(before) == 'table' and before or {}
  table.insert(before, 1, { from = int(from), ['until'] = int(till), who = by[1] or '', why = by[2] or '' })
  before[ENDED_KEPT + 1] = nil
  redis.call('HSET', key, prefix .. 'before', int(till) .. '|' .. cjson.encode(before))
end

-- A pause that follows one whose ticks nobody has recorded yet is the same one, longer.
if ARGV[3] == 'restore' then
  if from then return { '0', int(now), int(from), int(till or 0) } end
  from = tonumber(ARGV[8])
elseif (all or every) and not paused then
  if from and till and till <= now then keep_ended(from, till) end
  from = now
elseif not paused and not (till and till - 1 > cursor) then
  from = now
end
till = length > 0 and now + length or 9007199254740991
redis.call('HSET', key, prefix .. 'from', int(from), prefix .. 'until', int(till),
  prefix .. 'who', who, prefix .. 'why', why, prefix .. 'at', int(now))
list(cjson.encode({ from = int(from), ['until'] = int(till), who = who, why = why }))
if not all then
  redis.call('HSETNX', key, 'v', FORMAT)
  local keep = math.max(expire, length + expire)
  if redis.call('PTTL', key) < keep then redis.call('PEXPIRE', key, int(keep)) end
end
return { '1', int(now), int(from), int(till) }
