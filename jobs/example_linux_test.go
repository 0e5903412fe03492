package jobs_test

import (
	"context"
	"fmt"
	"time"

	"rota/jobs"
)

// A command is given a context whose end carries the reason, and answers with an outcome.
func ExampleCommand() {
	// main begins with: if jobs.IsWarden() { os.Exit(jobs.ServeWarden()) }
	warden, err := jobs.StartWarden(jobs.WardenOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer warden.Close()

	command := jobs.Command{
		Args:      jobs.Shell(`echo "tick $ROTA_TICK under token $ROTA_FENCING_TOKEN"; sleep 60`),
		Base:      jobs.BaseEnv(nil, "Europe/Berlin", nil),
		Env:       []string{"LEVEL=9"},
		KillGrace: 10 * time.Second,
		Warden:    warden,
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), 500*time.Millisecond,
		fmt.Errorf("%w after 500ms", jobs.ErrTimedOut))
	defer cancel()

	output := jobs.NewOutput(16 << 10)
	result := command.Run(ctx, jobs.Run{
		Job: "report", ID: "01JDEXAMPLE", Attempt: 1, Token: 1795968430725800,
		Tick:   time.Date(2026, 11, 29, 2, 0, 0, 0, time.UTC),
		Output: output,
	})
	fmt.Print(output)
	fmt.Println(result.Outcome, *result.ExitCode, "-", result.Reason)

	// Output:
	// tick 2026-11-29T02:00:00Z under token 1795968430725800
	// timed_out 143 - timed out after 500ms
}
