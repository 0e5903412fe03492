package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) resetCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "reset JOB",
		Short: "Take back a cursor that lies in the future",
		Long: `Take a job's cursor, the newest tick decided, back to now, if it lies ahead of Redis' clock: as
after that clock ran ahead and was set right. Until then the job has no tick to claim; its state
is "future", and the daemons' logs say so. Ticks before now are not caught up.`,
		Example: "  rota reset nightly-report",
		Args:    takes("JOB"),
		RunE:    func(c *cobra.Command, args []string) error { return a.reset(c.Context(), args[0], asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one object: job, reset, was")
	return c
}

func (a *app) reset(ctx context.Context, name string, asJSON bool) error {
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.close()
	job, err := findOne(s.cfg, name)
	if err != nil {
		return err
	}
	done := false
	was, err := change(ctx, s, func(ctx context.Context) (was time.Time, err error) {
		was, done, err = s.led.Reset(ctx, job.key)
		return was, err
	})
	if err != nil {
		return err
	}
	object := struct {
		Job   string     `json:"job"`
		Reset bool       `json:"reset"` // whether it was needed
		Was   *time.Time `json:"was"`   // the cursor; null: there is none
	}{job.key, done, writable(was)}
	if !done {
		return a.answer(asJSON, object, "%s needs no reset: its cursor does not lie in the future", job.key)
	}
	return a.answer(asJSON, object, "took the cursor of %s back from %s to now", job.key, stamp(was))
}

// writable is an instant for JSON: nil if there is none, or none that RFC 3339 can write. What
// Redis holds was written by whoever may write to it.
func writable(t time.Time) *time.Time {
	if t.IsZero() || t.Year() < 0 || t.Year() > 9999 {
		return nil
	}
	return new(t.UTC())
}
