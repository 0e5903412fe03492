package redischeck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// leastVersion is the oldest Redis that knows all that the scripts use.
const leastMajor, leastMinor = 6, 2

// askInfo reads INFO, the fields of all its sections.
func (c *checker) askInfo(ctx context.Context) {
	v, err := c.do(ctx, "INFO")
	text, ok := v.(string)
	if err != nil || !ok {
		return
	}
	c.info = map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			c.info[name] = value
		}
	}
	c.report.Server, c.report.Version = "redis", c.info["redis_version"]
	if v := c.info["valkey_version"]; v != "" {
		c.report.Server, c.report.Version = "valkey", v
	}
	c.report.Replicas, _ = strconv.Atoi(c.info["connected_slaves"])
}

// server looks at what kind of server it is.
func (c *checker) server() {
	major, rest, _ := strings.Cut(c.info["redis_version"], ".")
	minor, _, _ := strings.Cut(rest, ".")
	m, err1 := strconv.Atoi(major)
	n, err2 := strconv.Atoi(minor)
	if err1 == nil && err2 == nil && (m < leastMajor || m == leastMajor && n < leastMinor) {
		c.found(Fault, "version", fmt.Sprintf("%s %s is too old", c.report.Server, c.report.Version),
			fmt.Sprintf("install Redis %d.%d or newer, or Valkey", leastMajor, leastMinor))
	}
	if c.info["role"] == "slave" {
		c.found(Fault, "role", "this server is a replica, and takes no writes",
			"name its master in redis.url, or the Sentinels in redis.addrs and their name for it in redis.master")
	}
	if c.info["cluster_enabled"] == "1" && !c.opt.Cluster {
		c.found(Warning, "role", "this server is one node of a Cluster: when the slot of the namespace moves, the fleet does not find it",
			"write its nodes in redis.addrs, and leave redis.url out")
	}
}

// memory looks at what Redis does when it is full.
func (c *checker) memory() {
	policy, limit := c.info["maxmemory_policy"], c.number("maxmemory")
	if policy != "" && policy != "noeviction" {
		level, when := Fault, "may drop a lock that is held, and what was decided"
		if limit == 0 {
			level, when = Warning, "would drop locks as soon as maxmemory is set"
		}
		c.found(level, "eviction", "maxmemory-policy is "+policy+": it "+when, "CONFIG SET maxmemory-policy noeviction, and write it to redis.conf")
	}
	if used := c.number("used_memory"); limit > 0 && used > limit/10*9 {
		c.found(Warning, "memory", fmt.Sprintf("%d %% of maxmemory are used: when it is full, nothing is claimed", used*100/limit),
			"raise maxmemory, or find who else fills it")
	}
}

// persistence looks at what is left when the process ends.
func (c *checker) persistence() {
	if c.info["aof_enabled"] == "0" {
		c.found(Warning, "persistence", "the append-only file is off: a restart forgets what was decided since the last snapshot, if there are any",
			"CONFIG SET appendonly yes, and write it to redis.conf")
	}
	if c.info["aof_last_write_status"] == "err" {
		c.found(Fault, "persistence", "the append-only file cannot be written: Redis refuses what would change anything", "make room on its disk; its log says more")
	}
	if c.info["rdb_last_bgsave_status"] == "err" {
		c.found(Warning, "persistence", "the last snapshot failed: with stop-writes-on-bgsave-error Redis refuses what would change anything",
			"make room on its disk; its log says more")
	}
}

// replication looks at what a failover would forget.
func (c *checker) replication() {
	if c.info == nil {
		return
	}
	n, guarded := c.report.Replicas, c.info["min_slaves_good_slaves"] != ""
	switch want := c.opt.WaitReplicas; {
	case want > n:
		c.found(Fault, "replicas", fmt.Sprintf("redis.wait_replicas is %d, and %d are connected: no claim counts", want, n),
			"start replicas, or lower redis.wait_replicas")
	case n == 0 && (c.opt.Cluster || c.opt.Sentinels):
		c.found(Hint, "replicas", "no replica is connected: there is nothing to fail over to", "start one")
	case n > 0 && want == 0 && !guarded:
		c.found(Hint, "replicas", "a failover may forget the last claims: the master does not wait for its replicas",
			"set redis.wait_replicas to 1, or on the server min-replicas-to-write 1 and min-replicas-max-lag below half of lease.ttl")
	}
}

func (c *checker) number(field string) int64 {
	n, _ := strconv.ParseInt(c.info[field], 10, 64)
	return n
}

// clock asks for the time as the scripts do, so it also finds whether there is Lua.
func (c *checker) clock(ctx context.Context) {
	best := c.opt.OpTimeout
	for range 3 {
		sent := c.now()
		v, err := c.do(ctx, "EVAL", "return redis.call('TIME')", 1, c.key("hosts"))
		took := c.now().Sub(sent)
		if err != nil {
			if lacking(err) == lackNothing && !isUnknown(err) {
				c.found(Fault, "lua", "a script failed: "+err.Error(), "let this user run EVAL, EVALSHA and TIME on the keys of the namespace")
			}
			return
		}
		server, ok := instant(v)
		if ok && took <= best {
			best = took
			c.report.ClockOffsetMS = sent.Add(took / 2).Sub(server).Milliseconds()
		}
	}
	if off := time.Duration(c.report.ClockOffsetMS) * time.Millisecond; off.Abs() > time.Second+best/2 {
		side := "ahead of"
		if off < 0 {
			side = "behind"
		}
		c.found(Warning, "clock", fmt.Sprintf("this host's clock is %s %s the server's, by which ticks are due", off.Abs(), side),
			"have NTP set both")
	}
}

// instant reads what TIME answered.
func instant(v any) (time.Time, bool) {
	list, _ := v.([]any)
	if len(list) != 2 {
		return time.Time{}, false
	}
	seconds, err1 := strconv.ParseInt(fmt.Sprint(list[0]), 10, 64)
	micros, err2 := strconv.ParseInt(fmt.Sprint(list[1]), 10, 64)
	return time.Unix(seconds, micros*1000), err1 == nil && err2 == nil
}

// pings is how many round trips are measured.
const pings = 20

// latency measures some round trips, one after the other.
func (c *checker) latency(ctx context.Context) {
	took := make([]time.Duration, 0, pings)
	for range pings {
		sent := time.Now()
		if _, err := c.do(ctx, "PING"); err != nil {
			if _, answered := errors.AsType[redis.Error](err); !answered {
				c.found(Warning, "latency", "a PING got no answer within redis.op_timeout", "look at the network, and at what else this Redis does: SLOWLOG GET")
			}
			return
		}
		took = append(took, time.Since(sent))
	}
	slices.Sort(took)
	p50, p99 := took[pings/2], took[pings-1]
	c.report.Pings, c.report.P50MS, c.report.P99MS = pings, milliseconds(p50), milliseconds(p99)
	if slow := c.opt.OpTimeout / 10; p99 > slow {
		c.found(Warning, "latency", fmt.Sprintf("a round trip takes up to %s, and a call may take %s (redis.op_timeout)", p99.Round(100*time.Microsecond), c.opt.OpTimeout),
			"look at the network, and at what else this Redis does: SLOWLOG GET; or raise redis.op_timeout and lease.ttl")
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Round(10*time.Microsecond)) / 1e6 }

func sortFindings(f []Finding) {
	rank := func(l Level) int { return slices.Index([]Level{Fault, Warning, Hint}, l) }
	slices.SortStableFunc(f, func(a, b Finding) int { return cmp.Compare(rank(a.Level), rank(b.Level)) })
}
