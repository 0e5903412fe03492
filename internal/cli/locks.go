package cli

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"rota/scheduler/ledger"
)

func (a *app) locksCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "locks",
		Short: "The leases there are",
		Long: `List the leases that are held now in the namespace of the config: by runs of jobs and by commands
under 'rota lock'. LEFT is how long a lease lasts if it is not renewed. A lock of a job whose runs
may overlap has a lease for each, NAME:TICK. What holds something else is shown with its fault:
nothing can take such a lock until somebody has removed it.`,
		Example: "  rota locks\n  rota locks --json | jq -r '.locks[].lock'",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.locks(c.Context(), asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one object: locks, a list")
	return c
}

// lockView is a lease as scripts read it.
type lockView struct {
	Lock   string `json:"lock"`
	Host   string `json:"host"`
	Job    string `json:"job"` // "": of a command under rota lock
	Run    string `json:"run"`
	Holder string `json:"holder"` // its name, as every command says it
	Token  int64  `json:"token"`  // 0: the key holds no lease, and holder says what is wrong
	LeftMS int64  `json:"left_ms"`
	TTLMS  int64  `json:"ttl_ms"`
}

func viewLease(l ledger.Lease) lockView {
	return lockView{l.Lock, l.Host, l.Job, l.Run, holderName(l.Holder), l.Token, l.Left.Milliseconds(), l.TTL.Milliseconds()}
}

func (a *app) locks(ctx context.Context, asJSON bool) error {
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.close()
	leases, err := ask(ctx, s, s.led.Leases)
	if err != nil {
		return err
	}
	if asJSON {
		object := struct {
			Locks []lockView `json:"locks"`
		}{Locks: []lockView{}}
		for _, l := range leases {
			object.Locks = append(object.Locks, viewLease(l))
		}
		return json.NewEncoder(a.stdout).Encode(object)
	}
	if len(leases) == 0 {
		a.note("no lock is held")
		return nil
	}
	t := newTable(false, "", "LOCK", "HOLDER", "TOKEN", "LEFT")
	for _, l := range leases {
		if l.Token == 0 {
			t.row(l.Lock, l.Holder, "-", "-")
			continue
		}
		t.row(l.Lock, holderName(l.Holder), strconv.FormatInt(l.Token, 10), l.Left.Round(100*time.Millisecond).String())
	}
	_, err = t.WriteTo(a.stdout)
	return err
}
