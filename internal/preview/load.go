package preview

import (
	"fmt"
	"time"

	"rota/scheduler"
)

// mostRanked bounds the ticks of which the looks are counted; of more, as many in proportion.
const mostRanked = 5000

// load estimates what fleets of several sizes ask of Redis in the fullest second: a claim for each tick
// by the host that comes first, one look for each host, instant and rank after that, an end for each
// run, and what the hosts and the leases cost all the time.
func (r *replay) load() Load {
	out := Load{Fleets: []FleetLoad{}}
	peak := &r.stats.peak
	var due []scheduler.Due
	if peak.ticks > 0 {
		out.Second, out.Ticks = time.Unix(peak.at, 0).UTC(), peak.ticks
		for d := range r.within(out.Second, time.Second) {
			if d.Job.Scope != scheduler.ScopeHost {
				due = append(due, d)
			}
		}
	}
	for _, n := range []int{1, 2, 5, 10, 20, 50, 100} {
		f := FleetLoad{Hosts: n, Heartbeats: int64(n+1) / 2}
		// Those of scope "host" are each host's own.
		own := (peak.ticks - int64(len(due))) / int64(len(r.fleet.hosts))
		f.Claims = int64(len(due)) + own*int64(n)
		f.Reads = r.looks(due, n)
		scale := share(f.Claims, peak.ticks)
		f.Finishes = int64(float64(peak.ends)*scale + 0.5)
		f.Renewals = int64(float64(peak.going) * scale / max(r.opt.RenewEvery.Seconds(), 1e-3))
		f.Commands = f.Claims + f.Reads + f.Finishes + f.Renewals + f.Heartbeats
		out.Fleets = append(out.Fleets, f)
	}
	return out
}

// looks counts the reads of n hosts: each host makes one for the ticks of one instant for which it has
// the same rank, but for those it comes first for.
func (r *replay) looks(due []scheduler.Due, n int) int64 {
	if n < 2 || len(due) == 0 {
		return 0
	}
	hosts := make([]string, n)
	for i := range hosts {
		if i < len(r.opt.Hosts) {
			hosts[i] = r.opt.Hosts[i].Name
		} else {
			hosts[i] = fmt.Sprintf("another-host-%d", i)
		}
	}
	type look struct {
		at, tick   int64
		host, rank int
	}
	seen := map[look]bool{}
	ranked := due[:min(len(due), mostRanked)]
	var weights []uint64
	for i := range ranked {
		d := &ranked[i]
		weights = scheduler.Weights(weights[:0], d.Job.Name, d.Tick, hosts)
		for host, w := range weights {
			rank := 0
			for _, o := range weights {
				if o < w {
					if rank++; rank == scheduler.LastRank {
						break
					}
				}
			}
			if rank > 0 {
				seen[look{d.At.UnixNano(), d.Tick.Unix(), host, rank}] = true
			}
		}
	}
	return int64(len(seen)) * int64(len(due)) / int64(len(ranked))
}
