-- touch: keeps what is known of a job from expiring, and drops what is older than the history
-- goes. It is said of every job of a table once a day.
--
-- KEYS  1 the record
-- ARGV  1 prefix  2 job  3 expire  4 how far the history goes back, in ms
-- Reply { how many entries were dropped, now }
--
-- The newest run, and the newest of what nobody ran, stay whatever their age: they say how the job
-- stands. Of the runs at most ROUNDS × 64 entries go at once; the rest has time until tomorrow.
local ROUNDS = 32
local expire, now = ARGV[3], redis_time()
local before = int(math.max(0, now - tonumber(ARGV[4])))
local r, err = ask('HMGET', RECORD, 'v', 'run_id', 'runs')
if err then return err end
err = streams_error(RUNS, FAILS, SKIPS)
if err then return err end
local run, runs, dropped = r[2] or '', tonumber(r[3]) or 0, 0

-- Whichever list drops a run last deletes its keys.
local function drop_fails()
  for _, e in ipairs(redis.call('XRANGE', FAILS, '-', before)) do
    if field(e, 'run') ~= run then
      redis.call('XDEL', FAILS, e[1])
      local first = oldest(RUNS)
      if not first or id_before(field(e, 'at'), first[1]) then drop_run(field(e, 'run')) end
    end
  end
end

local function drop_runs()
  local from, started = '-', 0
  for _ = 1, ROUNDS do
    local old = redis.call('XRANGE', RUNS, from, before, 'COUNT', 64)
    for _, e in ipairs(old) do
      from = '(' .. e[1]
      if field(e, 'run') ~= run then
        redis.call('XDEL', RUNS, e[1])
        dropped = dropped + 1
        if field(e, 'ev') == 'start' then started = started + 1 end
        local f = FAILURE[field(e, 'outcome')] and oldest(FAILS)
        if field(e, 'ev') == 'end' and (not f or id_before(e[1], field(f, 'at'))) then drop_run(field(e, 'run')) end
      end
    end
    if #old < 64 then break end
  end
  if r[3] and started > 0 then redis.call('HSET', RECORD, 'runs', int(math.max(0, runs - started))) end
end

-- A host that knows a newer format keeps its own order there.
if not version_error(r[1] or '') then
  drop_fails()
  drop_runs()
  local last = redis.call('XREVRANGE', SKIPS, '+', '-', 'COUNT', 1)[1]
  if last then
    local least = id_before(last[1], before .. '-0') and last[1] or before .. '-0'
    dropped = dropped + redis.call('XTRIM', SKIPS, 'MINID', least)
  end
end
for _, key in ipairs({ RECORD, RUNS, FAILS, SKIPS }) do redis.call('PEXPIRE', key, expire) end
if run ~= '' then
  redis.call('PEXPIRE', run_key(run), expire)
  redis.call('PEXPIRE', ns .. 'out:' .. run, expire)
end
return { int(dropped), int(now) }
