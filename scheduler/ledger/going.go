package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Going is a run that goes on.
type Going struct {
	Run   string    `json:"run"`
	Host  string    `json:"host"`
	Kind  Kind      `json:"kind"`
	Tick  time.Time `json:"tick"`
	Since time.Time `json:"since"` // when it was won, by Redis' clock
	Token int64     `json:"token"`
}

// goingReads are the answers about a run that may overlap with newer ones: the record has a field
// for each, until its end is known.
type goingReads struct {
	fields map[string]string
	lease  *redis.StringCmd
}

// askGoing asks for the leases of such runs.
func askGoing(ctx context.Context, pipe redis.Pipeliner, rec map[string]string) []goingReads {
	var reads []goingReads
	for name, value := range rec {
		if !strings.HasPrefix(name, "par:") {
			continue
		}
		var fields map[string]string
		if json.Unmarshal([]byte(value), &fields) != nil || fields["run_lock"] == "" {
			continue // nothing that a claim wrote
		}
		reads = append(reads, goingReads{fields, pipe.Get(ctx, fields["run_lock"])})
	}
	return reads
}

// going lists the runs of a record whose leases live. newest tells whether the record's own does.
func going(rec map[string]string, reads []goingReads, newest bool) []Going {
	var out []Going
	if newest {
		out = append(out, readGoing(rec))
	}
	for _, r := range reads {
		g := readGoing(r.fields)
		if g.Token > 0 && leaseFence(r.lease.Val()) == g.Token && !(newest && g.Run == rec["run_id"]) {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b Going) int { return cmp.Compare(b.Token, a.Token) })
	return out
}

func readGoing(rec map[string]string) Going {
	token, _ := strconv.ParseInt(rec["run_fence"], 10, 64)
	return Going{
		Run: rec["run_id"], Host: rec["run_host"], Kind: Kind(rec["run_kind"]), Token: token,
		Tick: at(rec, "run_tick"), Since: at(rec, "run_since"),
	}
}
