package daemon

import (
	"context"
	"fmt"
	"log/slog"
)

// clientLog takes go-redis' own lines. What they report is seen by the calls that fail, which
// say it once; so they are for looking closer only.
type clientLog struct{ log *slog.Logger }

func (c clientLog) Printf(_ context.Context, format string, v ...any) {
	c.log.Debug("redis client", "text", fmt.Sprintf(format, v...))
}
