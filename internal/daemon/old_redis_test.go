package daemon

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rota/internal/redistest"
)

// Redis 6.0 refuses every heartbeat, because it knows no exclusive ranges of streams. Whoever reads
// the log learns that it is the server, and not what a stream ID is.
func TestRun_TellsThatRedisIsTooOld(t *testing.T) {
	p := redistest.Proxy(t, redistest.Server(t).Addr())
	p.Reject(-1, func(args []string) bool {
		return len(args) > 3 && strings.HasPrefix(strings.ToLower(args[0]), "eval") && args[3] == "{t}:hosts" &&
			slices.Contains(args, "web-1")
	}, "ERR Invalid stream ID specified as stream command argument")
	r := newRunning(t)
	r.text(strings.Replace(atRedis(filepath.Join(filepath.Dir(r.path), "state"), "redis://"+p.Addr()+"/0", "", "1500ms"),
		"username = \"rota\"\n", "", 1))
	r.start()
	r.await("redis refused the heartbeat", 1)
	if !r.log.has("6.2 or newer is needed") || !r.log.has("nothing is claimed until somebody acts") {
		t.Error("the log does not say that Redis is too old, and what follows")
	}
	r.stop()
}
