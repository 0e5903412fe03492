package ledger

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed beat.lua
var beatBody string

//go:embed leave.lua
var leaveBody string

// BeatEvery is how often a host says that it is there. One that missed three is gone.
const BeatEvery = 2 * time.Second

// HostGone is the age of a heartbeat after which its host no longer counts.
const HostGone = 3 * BeatEvery

// Host is what a host says of itself, and when it last did.
type Host struct {
	Name        string        `json:"name"`
	ID          string        `json:"id"` // new for every start of the daemon
	Version     string        `json:"version"`
	Table       string        `json:"table"` // hash of its cron table
	Labels      []string      `json:"labels"`
	ClockOffset time.Duration `json:"-"` // its clock minus Redis'
	Running     int           `json:"running"`
	MaxRuns     int           `json:"max_runs,omitzero"` // that it has at once; 0: it does not say
	Draining    bool          `json:"draining"`
	Beat        time.Time     `json:"-"` // by Redis' clock
}

type hostJSON struct {
	host
	OffsetMS int64 `json:"clock_offset_ms"`
}

type host Host

// MarshalJSON writes the host with the contract's names.
func (h Host) MarshalJSON() ([]byte, error) {
	if h.Labels == nil {
		h.Labels = []string{}
	}
	return json.Marshal(hostJSON{host(h), h.ClockOffset.Milliseconds()})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (h *Host) UnmarshalJSON(b []byte) error {
	var v hostJSON
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*h = Host(v.host)
	h.ClockOffset = time.Duration(v.OffsetMS) * time.Millisecond
	return nil
}

// Request asks for a run by hand. Its id is the stream entry's, and carries the instant it was
// asked for by Redis' clock.
type Request struct {
	ID    string
	Job   string
	Who   string
	Force bool
}

// Asked is the instant the request was made, which is the tick of its run.
func (r Request) Asked() time.Time {
	ms, _, _ := strings.Cut(r.ID, "-")
	n, _ := strconv.ParseInt(ms, 10, 64)
	return instant(n)
}

// Fleet is what a heartbeat brings back.
type Fleet struct {
	Now      time.Time
	Epoch    string
	Before   *Host // the entry under this host's name before this beat; nil if there was none
	Hosts    []Host
	Steering Steering
	Requests []Request
	Open     []string // jobs with a tick given back
}

// Beat says that a host is there. id is for the epoch, should this Redis have none; after is
// the newest request the caller has looked at, "0" for none.
func (l *Ledger) Beat(ctx context.Context, self Host, id, after string) (Fleet, error) {
	text, err := json.Marshal(self)
	if err != nil {
		return Fleet{}, fmt.Errorf("ledger: heartbeat: %w", err)
	}
	v, err := l.beat.Run(ctx, l.client, []string{l.keys.hosts()},
		l.keys.prefix, "-", self.Name, text, HostGone.Milliseconds(), id, after)
	if err != nil {
		return Fleet{}, fmt.Errorf("heartbeat: %w", err)
	}
	list, ok := v.([]any)
	if !ok || len(list) < 8 {
		return Fleet{}, fmt.Errorf("ledger: heartbeat: reply is %T, not an array of 8", v)
	}
	r := readReply("heartbeat", "", list[:3], 3)
	f := Fleet{Now: r.instant(0), Epoch: r.text(1)}
	if r.err != nil {
		return Fleet{}, r.err
	}
	if h, ok := readHost(r.text(2)); ok {
		f.Before = &h
	}
	hosts, open := texts(list[5]), texts(list[7])
	f.Steering = readSteering(pairs(texts(list[3])), pairs(texts(list[4])))
	for i := 0; i+1 < len(hosts); i += 2 {
		if h, ok := readHost(hosts[i+1]); ok {
			f.Hosts = append(f.Hosts, h)
		}
	}
	f.Open = open
	entries, _ := list[6].([]any)
	for _, e := range entries {
		pair, ok := e.([]any)
		if !ok || len(pair) != 2 {
			continue
		}
		id, _ := pair[0].(string)
		fields := pairs(texts(pair[1]))
		f.Requests = append(f.Requests, Request{ID: id, Job: fields["job"], Who: fields["who"], Force: fields["force"] == "1"})
	}
	sortHosts(f.Hosts)
	return f, nil
}

// Leave takes a host out of the fleet: it claims nothing any more, and says so. id is the one
// it beat with; another daemon by that name stays.
func (l *Ledger) Leave(ctx context.Context, host, id string) error {
	if _, err := l.leave.Run(ctx, l.client, []string{l.keys.hosts()}, l.keys.prefix, "-", host, id); err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	return nil
}

// Hosts lists the hosts that were seen within three heartbeats, by name.
func (l *Ledger) Hosts(ctx context.Context) ([]Host, error) {
	pipe := l.client.Pipeline()
	clock := l.askTime(ctx, pipe)
	all := pipe.HGetAll(ctx, l.keys.hosts())
	if err := exec(ctx, pipe); err != nil {
		return nil, fmt.Errorf("hosts: %w", err)
	}
	var hosts []Host
	for _, v := range all.Val() {
		if h, ok := readHost(v); ok && clock().Sub(h.Beat) <= HostGone {
			hosts = append(hosts, h)
		}
	}
	sortHosts(hosts)
	return hosts, nil
}

func sortHosts(hosts []Host) {
	slices.SortFunc(hosts, func(a, b Host) int { return cmp.Compare(a.Name, b.Name) })
}

func readHost(v string) (Host, bool) {
	beat, text, ok := strings.Cut(v, "|")
	ms, err := strconv.ParseInt(beat, 10, 64)
	var h Host
	if !ok || err != nil || json.Unmarshal([]byte(text), &h) != nil {
		return Host{}, false
	}
	h.Beat = instant(ms)
	return h, true
}

// Ask files a request for a run by hand, and hints to the hosts that it is there.
func (l *Ledger) Ask(ctx context.Context, r Request) (id string, err error) {
	add := redis.NewStringCmd(ctx, "xadd", l.keys.requests(), "maxlen", "~", 1000, "*",
		"job", r.Job, "who", r.Who, "force", flag(r.Force))
	_ = l.client.Process(ctx, unrepeated{add}) // the error is in the command
	if err := commandError(add); err != nil {
		return "", fmt.Errorf("trigger %q: %w", r.Job, err)
	}
	pipe := l.client.Pipeline()
	pipe.PExpire(ctx, l.keys.requests(), 24*time.Hour)
	pipe.Publish(ctx, l.keys.events(), "request "+r.Job)
	_, _ = pipe.Exec(ctx) // a hint: the next heartbeat brings the request anyway
	return add.Val(), nil
}

// Withdraw takes a request back. False: a host has taken it.
func (l *Ledger) Withdraw(ctx context.Context, id string) (bool, error) {
	del := redis.NewIntCmd(ctx, "xdel", l.keys.requests(), id)
	_ = l.client.Process(ctx, unrepeated{del})
	if err := commandError(del); err != nil {
		return false, fmt.Errorf("withdraw: %w", err)
	}
	return del.Val() == 1, nil
}

// Hints subscribes to what scripts publish: something to look at before the next heartbeat.
// Nothing may depend on their delivery. The caller closes the subscription.
func (l *Ledger) Hints(ctx context.Context) *redis.PubSub {
	return l.client.Subscribe(ctx, l.keys.events())
}

// texts reads an array of strings out of a reply; whatever is none is left out.
func texts(v any) []string {
	list, _ := v.([]any)
	out := make([]string, 0, len(list))
	for _, e := range list {
		if s, ok := e.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

func pairs(flat []string) map[string]string {
	m := make(map[string]string, len(flat)/2)
	for i := 0; i+1 < len(flat); i += 2 {
		m[flat[i]] = flat[i+1]
	}
	return m
}
