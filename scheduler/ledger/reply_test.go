package ledger

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"rota/internal/redistest"
	"rota/locking"
)

// A reply of an unexpected shape is never acted on: the claim stays unknown.
func TestDecision_BadReplies(t *testing.T) {
	list := func(s ...any) []any { return s }
	for name, c := range map[string]struct {
		reply locking.Reply
		want  string // of the error
	}{
		"an error":               {locking.Reply{Err: errors.New("dial tcp")}, "dial tcp"},
		"nothing":                {locking.Reply{}, "not an array"},
		"a string":               {locking.Reply{Value: "won"}, "not an array"},
		"an empty array":         {locking.Reply{Value: list()}, "0 elements"},
		"too short":              {locking.Reply{Value: list("won", "1")}, "2 elements"},
		"won without a token":    {locking.Reply{Value: list("won", "1", "e")}, "want one more"},
		"a token that is none":   {locking.Reply{Value: list("won", "1", "e", "1.79e+15", "", "0", "1")}, `"1.79e+15", not a number`},
		"a number for a string":  {locking.Reply{Value: list("won", int64(1), "e", "5", "", "0", "1")}, "element 1"},
		"a clock that is none":   {locking.Reply{Value: list("drained", "now", "e")}, `"now", not a number`},
		"held by nobody":         {locking.Reply{Value: list("held", "1", "e", "skipped", "a")}, "want one more"},
		"an answer of later on":  {locking.Reply{Value: list("perhaps", "1", "e")}, `unknown answer "perhaps"`},
		"no answer":              {locking.Reply{Value: list("", "1", "e")}, "unknown answer"},
		"a count of no range":    {locking.Reply{Value: list("count", "1", "e", "5")}, `range "5"`},
		"a count of a bad range": {locking.Reply{Value: list("count", "1", "e", "5:x")}, `range "5:x"`},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := readDecision("j", c.reply, nil)
			if d.Err == nil || !strings.Contains(d.Err.Error(), c.want) || !strings.Contains(d.Err.Error(), `claim "j"`) {
				t.Errorf("readDecision() = %+v, want an error about claim \"j\" with %q", d, c.want)
			}
			if c.reply.Err == nil && !errors.Is(d.Err, locking.ErrUnavailable) {
				t.Errorf("readDecision() = %v, want ErrUnavailable: the claim may have been won", d.Err)
			}
			if err := d.Err; d != (Decision{Err: err}) {
				t.Errorf("readDecision() = %+v, want nothing but the error", d)
			}
		})
	}
}

// Whatever Redis says, it is an answer of ours or an error.
func FuzzReadDecision(f *testing.F) {
	f.Add("won\n1\ne\n5\nopen\n0\n1")
	f.Add("held\n1\ne\nskipped\na\nj\nr\n1\n2\n3")
	f.Add("count\n1\ne\n5:6,7:8")
	f.Add("paused\n1\ne\n9007199254740991")
	f.Fuzz(func(t *testing.T, text string) {
		var list []any
		for s := range strings.SplitSeq(text, "\n") {
			list = append(list, s)
		}
		d, g := readDecision("j", locking.Reply{Value: list}, nil)
		switch d.Answer {
		case Won, Held, Already, Early, Late, Behind, Paused, Drained, Future:
			if d.Err != nil || g != (gap{}) {
				t.Errorf("readDecision(%q) = %+v, %+v, want an answer alone", text, d, g)
			}
		case count:
			if g.asked == "" {
				t.Errorf("readDecision(%q) asks for nothing", text)
			}
		default:
			if d.Err == nil {
				t.Errorf("readDecision(%q) = %+v, want an error", text, d)
			}
		}
	})
}

// The reply to a claim is lost; it is sent again and the answer is the same win.
func TestClaim_LostReply(t *testing.T) {
	s := redistest.Server(t)
	p := redistest.Proxy(t, s.Addr())
	r := newRig(t, p.Client())
	r.ran(-1) // the server knows the scripts: else it is NOSCRIPT that gets lost
	c := r.claim(0)
	p.DropReplies(-1, redistest.Named("eval", "evalsha"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if d := r.led.Claim(ctx, []Claim{c})[0]; !errors.Is(d.Err, locking.ErrUnavailable) || d.Answer != "" {
		t.Fatalf("Claim() without a reply = %+v, want ErrUnavailable and no answer", d)
	}
	p.Heal()
	g := r.win(c)
	r.wantHistory("-1 succeeded scheduled on a", "0 running scheduled on a")

	p.DropReplies(-1, redistest.Named("eval", "evalsha"))
	if a := r.led.Renew(ctx, []*Grant{g})[0]; !errors.Is(a.Err, locking.ErrUnavailable) || a.Renewed {
		t.Errorf("Renew() without a reply = %+v, want ErrUnavailable", a)
	}
	if _, err := r.led.Finish(ctx, g, Ending{Outcome: "succeeded", Attempt: 1}); !errors.Is(err, locking.ErrUnavailable) {
		t.Errorf("Finish() without a reply = %v, want ErrUnavailable", err)
	}
	p.Heal()
	r.end(g, "failed") // the first one was recorded
	r.wantHistory("-1 succeeded scheduled on a", "0 succeeded scheduled on a")
}

// What would do harm is not sent at all.
func TestClaim_Check(t *testing.T) {
	_, client := redistest.InBubble(t)
	r := newRig(t, client)
	for name, c := range map[string]struct {
		change func(*Claim)
		want   string
	}{
		"no job":               {func(c *Claim) { c.Job = "" }, "Job, Lock, Run and Host"},
		"no lock":              {func(c *Claim) { c.Lock = "" }, "Job, Lock, Run and Host"},
		"no run":               {func(c *Claim) { c.Run = "" }, "Job, Lock, Run and Host"},
		"no host":              {func(c *Claim) { c.Host = "" }, "Job, Lock, Run and Host"},
		"a stream of a job":    {func(c *Claim) { c.Job = "j:runs" }, `"j:runs" is no name`},
		"a job with a slash":   {func(c *Claim) { c.Job = "j/k" }, `"j/k" is no name`},
		"a lock's counter":     {func(c *Claim) { c.Lock = "j:fence" }, `"j:fence" is no name`},
		"another slot":         {func(c *Claim) { c.Lock = "{j}" }, `"{j}" is no name`},
		"a host with a slash":  {func(c *Claim) { c.Host = "a/b" }, `"a/b" is no name`},
		"a host of a host":     {func(c *Claim) { c.Host = "a@b" }, `"a@b" is no name`},
		"a job of no host":     {func(c *Claim) { c.Job = "j@" }, `"" is no name`},
		"the whole fleet":      {func(c *Claim) { c.Job = AllJobs }, `"-" is no name`},
		"a name of 65":         {func(c *Claim) { c.Job = strings.Repeat("j", 65) }, "is no name"},
		"no token":             {func(c *Claim) { c.Token = "" }, "0 digits, want 32"},
		"no lease":             {func(c *Claim) { c.TTL = time.Microsecond }, "TTL is 1µs, want 1ms"},
		"keys that are gone":   {func(c *Claim) { c.Expire = 0 }, "Expire is 0s, want the TTL of 1m0s"},
		"an answer for a kind": {func(c *Claim) { c.Kind = Rerun }, `Kind is "rerun"`},
	} {
		t.Run(name, func(t *testing.T) {
			bad := r.claim(0, c.change)
			got := r.led.Claim(t.Context(), []Claim{bad, r.claim(1)})
			_, finish := r.led.Finish(t.Context(), &Grant{Claim: bad}, Ending{})
			abandon := r.led.Abandon(t.Context(), &bad, "")
			for call, err := range map[string]error{"Claim": got[0].Err, "Finish": finish, "Abandon": abandon} {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s() = %v, want an error with %q", call, err, c.want)
				}
			}
			if got[1].Answer != Early {
				t.Errorf("Claim() of the good one = %+v, want early", got[1])
			}
		})
	}
}

func TestClaim_CheckLetsNamesPass(t *testing.T) {
	_, client := redistest.InBubble(t)
	r := newRig(t, client)
	for _, name := range []string{"j", "0", "J.k_l-m", "j@web-1", strings.Repeat("j", 64)} {
		c := r.claim(0, ofJob(name), onLock(name), by("web-1.example"))
		if err := c.check(); err != nil {
			t.Errorf("check() of job and lock %q = %v, want no error", name, err)
		}
	}
}

func TestNew_Options(t *testing.T) {
	_, client := redistest.InBubble(t)
	for name, c := range map[string]struct {
		opts Options
		want string
	}{
		"no namespace":           {Options{}, `Namespace is ""`},
		"a brace":                {Options{Namespace: "a}b"}, `Namespace is "a}b"`},
		"a long one":             {Options{Namespace: strings.Repeat("x", 33)}, "want 1 to 32"},
		"fewer runs than none":   {Options{Namespace: "t", Keep: -1}, "Keep is -1"},
		"a counter that expired": {Options{Namespace: "t", FenceTTL: -time.Second}, "FenceTTL is -1s"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := New(client, c.opts); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("New() = %v, want an error with %q", err, c.want)
			}
		})
	}
	if _, err := New(nil, Options{Keep: -1}); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("New() = %v, want three faults, a line each", err)
	}
	if l, err := New(client, Options{Namespace: "t"}); err != nil || l.keep != 50 || l.fenceTTL != 7*24*time.Hour {
		t.Errorf("New() = %+v, %v, want 50 runs and 7 days by default", l, err)
	}
}
