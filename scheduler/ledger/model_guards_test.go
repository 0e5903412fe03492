package ledger

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"rota/internal/redistest"
	"rota/locking"
)

// guard is one condition of the scripts, and what the script does without it.
type guard struct {
	name   string
	script string // whose text; "lease" and "record" are the preludes
	text   string
	gone   string

	// At is what notices that it is gone: the policy and seed of the model that find a fault; with the
	// name of an event, that seed has it no more; or the test of one of these packages that fails, where
	// the model has no way to it.
	at string
}

const guardSeeds = 400

// TestModel_Guards takes one guard at a time out of the scripts: each time the model must notice, or it
// would not if somebody took that guard out. It tries the seed that is known to do so; with
// ROTA_MODEL_GUARDS=search (make soak) it looks for one, for all guards.
func TestModel_Guards(t *testing.T) {
	percent := debug.SetGCPercent(800)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	search := os.Getenv("ROTA_MODEL_GUARDS") == "search"
	for _, g := range guards {
		t.Run(g.script+": "+g.name, func(t *testing.T) {
			g.without(t)
			policy, seed, _ := strings.Cut(g.at, " ")
			if strings.Contains(policy, "Test") {
				return
			}
			if !search {
				seed, event, _ := strings.Cut(seed, " ")
				n, err := strconv.ParseUint(seed, 10, 64)
				seen := map[string]int{}
				if err != nil || !g.try(t, policy, n, seen) && (event == "" || seen[event] > 0) {
					t.Errorf("%q shows nothing without it: has the model changed? ROTA_MODEL_GUARDS=search looks for another", g.at)
				}
				if event != "" && err == nil {
					if (guard{script: "claim"}).try(t, policy, n, seen); seen[event] == 0 {
						t.Errorf("%q: has no %s with it either", g.at, event)
					}
				}
				return
			}
			found, seen := false, map[string]int{}
			for seed := uint64(0); seed < guardSeeds && !found; seed++ {
				for _, policy := range []string{"skip", "queue", "replace", "allow"} {
					found = found || g.try(t, policy, seed, seen)
				}
			}
			for _, what := range usual { // it may be that something never happens any more
				found = found || seen[what] == 0
			}
			if !found {
				t.Error("no seed of any policy finds a fault without it")
			}
		})
	}
}

// try tells whether one seed finds a fault in scripts without the guard.
func (g guard) try(t *testing.T, policy string, seed uint64, seen map[string]int) (found bool) {
	t.Helper()
	t.Run(fmt.Sprint(policy, " ", seed), func(t *testing.T) {
		redis, client := redistest.InBubble(t)
		w := newWorld(t, redis, client, policy, seed)
		g.takeOut(t, w.led)
		w.run()
		for what, n := range w.seen {
			seen[what] += n
		}
		if found = len(w.faults) > 0; found {
			t.Logf("found by %q: %s", fmt.Sprint(policy, " ", seed), w.faults[0])
		}
	})
	return found
}

func (g guard) takeOut(t *testing.T, l *Ledger) {
	t.Helper()
	texts := g.without(t)
	for body, s := range map[string]**locking.Script{"claim": &l.claim, "renew": &l.renew, "finish": &l.finish, "abandon": &l.abandon} {
		// The second lease prelude hides the first.
		*s = locking.NewScript(texts["lease"], texts["record"], texts[body])
	}
}

// without returns the texts of all scripts, one of them without the guard.
func (g guard) without(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{
		"lease": locking.Prelude(), "record": recordPrelude,
		"claim": claimBody, "renew": renewBody, "finish": finishBody, "abandon": abandonBody,
	}
	if n := strings.Count(texts[g.script], g.text); n != 1 && g.text != "" {
		t.Fatalf("%q is %d times in %s, want once", g.text, n, g.script)
	}
	texts[g.script] = strings.Replace(texts[g.script], g.text, g.gone, 1)
	return texts
}

var guards = []guard{
	// Mine?
	{"a repeated claim of the holder is won again", "claim", "if held and held.token == token then", "if false then", "queue 0"},
	{"made anew only while free", "claim", "  if held or mine.run_token ~= token or", "  if mine.run_token ~= token or", "skip 30"},
	{"made anew only if it has not ended", "claim", "(mine == r and r.run_state ~= 'running')", "false", "skip 1"},
	// When?
	{"what the host knows survives a flush", "claim", "if known > cursor() and known <= now + 1000 then", "if false then", "allow 44"},
	{"never early", "claim", "if not manual and due > now then", "if false then", "skip 0"},
	{"paused", "claim", "if paused and not manual then", "if false then", "skip 1"},
	{"drained", "claim", "if drained == 1 then", "if false then", "skip 1"},
	// The old run
	{"runs that overlap are counted while they live", "claim", "if l and l.token == o.run_token then", "if false then", "allow 0"},
	{"they exclude when allow is taken back", "claim", "if overlap ~= 'allow' then held, held_key", "if false then held, held_key", "allow 74"},
	{"a dead run is lost", "claim", "    newest_ended = true\n", "", "queue 9"},
	{"a run under another lock's name excludes", "claim", "elseif r.run_lock ~= lock and not", "elseif false and not", "queue 9"},
	// Manual
	{"a request is answered once", "claim", "if #asked == 0 then", "if false then", "queue 3"},
	{"an old request is refused", "claim", "if now - tick > patience then", "if false then", "skip 6"},
	{"a run by hand waits for nobody", "claim", "    refused('held by ' .. h, h, id)\n    return held_answer('skipped')", "", "skip 0"},
	{"a request goes with its run", "claim", "if manual then redis.call('XDEL', REQUESTS, request) end", "", "queue 0"},
	// Decided?
	{"the smaller since counts", "claim", "since = math.min(since, tonumber(r.since))", "", "allow 2"},
	{"not due before since", "claim", "local base = math.max(cursor(), since)", "local base = cursor()", "skip 0"},
	{"nothing is known of before the epoch", "claim", "math.max(base, tonumber(r.gap_from) or r.tick and 0 or epoch_born(forgot))", "base", "skip 251"},
	{"ticks in a pause are not due", "claim", "      base = math.max(base, last)\n", "", "skip 1"},
	{"ticks in a pause are skipped", "claim", "'skipped', p.reason }", "'missed' }", "skip 1"},
	{"decided ticks are", "claim", "elseif not undecided then", "elseif false then", "skip 0"},
	{"a tick given back can be won", "claim", "if r.run_state == 'open' and r.run_tick == int(tick) then", "if false then", "skip 0 open"},
	{"a waiting tick can be won", "claim", "elseif r.wait_tick == int(tick) then", "elseif false then", "queue 0"},
	{"a rerun can be won", "claim", "elseif on_crash == 'rerun' and rerunnable(r) and", "elseif false and", "skip 65"},
	{"only the crashed tick is rerun", "claim", "rerunnable(r) and r.run_tick == int(tick) then", "rerunnable(r) then", "skip 5"},
	{"a rerun is no reason for another", "record", "and (tonumber(r.run_reruns) or 0) == 0", "", "skip 3"},
	{"runs by hand are not rerun", "record", "and r.run_kind ~= 'manual'", "", "allow 5"},
	// Gap
	{"a gap is told", "claim", "      ranges[#ranges + 1] = { gap, prev, 'missed' }\n", "", "queue 17"},
	{"a gap is counted as it is now", "claim", "if asked ~= counted then", "if counted == '' then", "skip 1"},
	{"the oldest first", "claim", "if misfire == 'all' and back > 0 and back <= prev then", "if false then", "replace 17 behind"},
	{"a gap moves the cursor", "claim", "      set('tick', int(math.max(cursor(), prev, gap)))\n", "", "queue 25"},
	// Late?
	{"late ticks are missed", "claim", "if deadline > 0 and now > deadline and", "if false and", "allow 4"},
	{"a missed tick is decided", "claim", "    if found == 'open' then close_open() end\n    decide_tick()\n    flush()\n    return answer('late', 'missed')", "    return answer('late', 'missed')", "skip 6"},
	{"a waiting tick is never late", "claim", "found ~= 'wait' and found ~= 'rerun' then", "found ~= 'rerun' then", "queue 0"},
	{"a rerun is never late", "claim", "found ~= 'wait' and found ~= 'rerun' then", "found ~= 'wait' then", "skip 3"},
	// Held?
	{"one holder", "claim", "  if held or full then", "  if full then", "skip 0"},
	{"at most max_parallel", "claim", "  if held or full then", "  if held then", "allow 0"},
	{"who waits is not skipped", "claim", "if kind == 'misfire' or found == 'wait' or found == 'rerun' then", "if kind == 'misfire' then", "queue 0"},
	{"a catch-up waits", "claim", "if kind == 'misfire' or found == 'wait' or", "if found == 'wait' or", "skip 56"},
	{"only the newest waits", "claim", "      if waiting then add_skip('skipped', waiting, 0, 1, 'superseded by a newer tick', expire) end\n", "", "queue 3"},
	{"an older one does not displace it", "claim", "and waiting and waiting > tick then", "and false then", "TestAbandon_OpenTick"},
	{"a range of skips has no holes", "claim", "and tonumber(r.skip_until) == prev then", "then", "allow 2"},
	{"a range of skips has one holder", "claim", "and r.skip_by == by and", "and", "queue 119"},
	{"a skipped tick is decided", "claim", "    if found == 'open' then close_open() end\n    decide_tick()\n    flush()\n    return held_answer(decided)", "    flush()\n    return held_answer(decided)", "skip 0"},
	// Won
	{"an open tick that is overwritten is missed", "claim", "elseif given_back then", "elseif false then", "allow 4"},
	{"a rerun that is overwritten has its reason", "claim", "elseif rerun_off then", "elseif false then", "queue 4"},
	{"a waiting tick that is overtaken is skipped", "claim", "  if waiting < tick then\n", "  if false then\n", "queue 0"},
	{"a waiting tick that is won waits no more", "claim", "  redis.call('HDEL', RECORD, 'wait_tick')\nend\nclose_open()", "end\nclose_open()", "queue 0"},
	{"a tick that is won is open no more", "claim", "end\nclose_open()\nfor", "end\nfor", "skip 0"},
	{"what was given up is not won", "claim", "if gone then\n", "if false then\n", "skip 3"},
	{"a rerun settles the run before", "claim", "  note(r.run_id, expire, 'settled', '1')\n  note(run, expire, 'before', cjson.encode(old))", "  note(run, expire, 'before', cjson.encode(old))", "replace 33"},
	{"a superseded rerun is settled", "claim", "elseif rerun_off then\n  note(r.run_id, expire, 'settled', '1')\n", "elseif rerun_off then\n", "replace 23"},
	{"a rerun knows what it found", "claim", "  note(run, expire, 'before', cjson.encode(old))\n", "", "allow 3"},
	{"a win moves the cursor", "claim", "if not manual then decide_tick() end\nflush(true)", "flush(true)", "skip 0"},
	{"a run by hand does not", "claim", "if not manual then decide_tick() end\nflush(true)", "decide_tick()\nflush(true)", "queue 0"},
	{"each parallel run is known", "claim", "  set(PAR, cjson.encode(o))\nend\nif not", "end\nif not", "allow 0"},
	// Finish
	{"an outcome counts once", "finish", "if repeated then return reply end", "", "skip 0"},
	{"only the newest run's state is set", "finish", "  if own then\n", "  if true then\n", "allow 2"},
	{"an outcome replaces lost", "finish", "drop_lost(lost, fail)", "", "skip 1"},
	{"an interrupted run may be rerun", "finish", "crashed and outcome or 'ended'", "'ended'", "queue 4"},
	{"a parallel run that ended is gone", "finish", "  if r['par:' .. run] then redis.call('HDEL', RECORD, 'par:' .. run) end\n", "", "allow 0"},
	{"each run is marked as ended", "finish", "marked, err = ask('HSET', run_key(run), 'job', job, 'ended', ended)", "marked = 1", "skip 0"},
	// Abandon
	{"a claim that arrives later loses", "abandon", "given_up(run)\n", "drop_run(run)\n", "queue 22"},
	{"what ran is not given back", "abandon", "if kept[7] then return { '0', int(now) } end", "", "TestAbandon_OfAnUnknownClaim"},
	{"what was never won is not given back", "abandon", "if not start and not own then return", "if false then return", "queue 0"},
	{"its start goes", "abandon", "if start and redis.call('XDEL', RUNS, start) == 1 and r.runs then redis.call('HINCRBY', RECORD, 'runs', -1) end", "", "skip 0"},
	{"its parallel run goes", "abandon", "redis.call('HDEL', RECORD, 'par:' .. run)", "", "allow 0"},
	{"its lost goes", "abandon", "drop_lost(lost, fail)", "", "skip 17"},
	{"only the newest can be opened", "abandon", "if not own then\n", "if false then\n", "replace 23"},
	{"a slot that is taken leaves it missed", "abandon", "  if not settled then\n", "  if false then\n", "allow 25"},
	{"a settled one has its entry", "abandon", "  if not settled then\n", "  if true then\n", "replace 23"},
	{"a rerun given back is to be rerun again", "abandon", "if r.run_found == 'rerun' and before then", "if false then", "allow 3"},
	{"a waiting tick given back waits again", "abandon", "elseif r.run_found == 'wait' then", "elseif false then", "TestAbandon_RestoresWhatTheWinFound"},
	{"unless a newer one waits", "abandon", "if waiting and waiting > tonumber(tick) then", "if false then", "queue 43"},
	{"everybody is told of it", "abandon", "  redis.call('SADD', OPEN, job)\n", "", "TestAbandon_RestoresWhatTheWinFound"},
	// Leases
	{"renew compares the token", "lease", "local function lease_renew(lock, token, ttl)\n  local v = redis.pcall('GET', lock)\n  if type(v) ~= 'string' or string.sub(v, 1, #token + 1) ~= token .. '|' then", "local function lease_renew(lock, token, ttl)\n  local v = redis.pcall('GET', lock)\n  if type(v) ~= 'string' then", "locking.TestProperty15_RenewNeverMakesALock"},
	{"release compares the token", "lease", "local function lease_release(lock, token)\n  local v = redis.pcall('GET', lock)\n  if type(v) ~= 'string' or string.sub(v, 1, #token + 1) ~= token .. '|' then", "local function lease_release(lock, token)\n  local v = redis.pcall('GET', lock)\n  if type(v) ~= 'string' then", "queue 0"},
	{"tokens rise", "lease", "math.max(stored + 1, us, floor + 1)", "math.floor(us / 60000000) * 60000000", "skip 0"},
	{"a lost counter is taken over by the clock", "lease", "math.max(stored + 1, us, floor + 1)", "math.max(stored + 1, floor + 1)", "skip 3"},
	{"a renewal is good for the whole lease", "lease", "  return length ~= nil and redis.call('PEXPIRE', lock, length) == 1", "  return true", "skip 0"},
	{"a grant made again is good for the whole lease", "claim", "  redis.call('PEXPIRE', lock, int(ttl))\n  return won(held.fence, mine or {})", "  return won(held.fence, mine or {})", "replace 44"},
}
