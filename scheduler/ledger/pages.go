package ledger

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// pages reads the streams of jobs from their ends, as far back as the newest entries need.
//
// What is appended to a stream has an id that is no earlier than what it is about: than the win of
// a run, than a tick. So whatever is not read yet belongs before the oldest id that was.
type pages struct {
	l     *Ledger
	limit int
	size  int64  // of the next page of each
	since string // the lowest id that matters
	jobs  []*jobPages
}

type jobPages struct {
	name               string
	runs, fails, skips page
}

// page is how far one stream was read.
type page struct {
	key    string
	read   []redis.XMessage
	next   string    // the highest id that was not read
	oldest time.Time // of the ids that were
	more   bool      // there is more
	wanted bool      // which may matter
}

func (l *Ledger) newPages(q Query) *pages {
	p := &pages{l: l, limit: q.Limit, size: math.MaxInt32, since: "-"}
	if q.Limit > 0 {
		p.size = 3 * int64(q.Limit) // of a run there are three entries at most, mostly two
	}
	if !q.Since.IsZero() {
		p.since = strconv.FormatInt(max(0, q.Since.UnixMilli()), 10)
	}
	for _, job := range q.Jobs {
		p.jobs = append(p.jobs, &jobPages{
			name: job,
			runs: page{key: l.keys.runs(job), next: "+", wanted: true}, fails: page{key: l.keys.fails(job), next: "+", wanted: true},
			skips: page{key: l.keys.skips(job), next: "+", wanted: true},
		})
	}
	return p
}

func (p *pages) all(do func(*page)) {
	for _, j := range p.jobs {
		do(&j.runs)
		do(&j.fails)
		do(&j.skips)
	}
}

// read reads another page of each stream that is wanted.
func (p *pages) read(ctx context.Context) error {
	pipe := p.l.client.Pipeline()
	answers := map[*page]*redis.XMessageSliceCmd{}
	p.all(func(s *page) {
		if s.wanted {
			answers[s] = pipe.XRevRangeN(ctx, s.key, s.next, p.since, p.size)
		}
	})
	if len(answers) == 0 {
		return nil
	}
	if err := exec(ctx, pipe); err != nil {
		return err
	}
	for s, answer := range answers {
		got := answer.Val()
		s.read = append(s.read, got...)
		s.more = int64(len(got)) == p.size
		if len(got) > 0 {
			last := got[len(got)-1].ID
			s.next, s.oldest = "("+last, idTime(last)
		}
	}
	p.size = min(4*p.size, 4096)
	return nil
}

// enough tells whether nothing that was not read can belong among the first entries, which are in
// order. If something can, it is read next, and no more than that.
func (p *pages) enough(entries []Entry) bool {
	enough := true
	p.all(func(s *page) {
		s.wanted = s.more && (len(entries) < p.limit || !entries[p.limit-1].At().After(s.oldest))
		enough = enough && !s.wanted
	})
	return enough
}

// idTime is the instant in a stream id.
func idTime(id string) time.Time {
	return Request{ID: id}.Asked()
}
