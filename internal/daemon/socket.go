package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"rota/internal/config"
	"rota/internal/connect"
	"rota/internal/socket"
	"rota/locking/fence"
)

// socketPaths are where runs may reach their daemon, the better place first: the folder that systemd made
// for sockets ($RUNTIME_DIRECTORY, systemd.exec(5)), which runs of every user can pass through, and the state
// folder, which those of the daemon's own user can. The latter is one daemon's alone; several may share the
// former, so there the name has a hash of it.
func socketPaths(stateDir string) []string {
	if abs, err := filepath.Abs(stateDir); err == nil {
		stateDir = abs // a run is started elsewhere
	}
	paths := []string{filepath.Join(stateDir, "run.sock")}
	if dir, _, _ := strings.Cut(os.Getenv("RUNTIME_DIRECTORY"), ":"); dir != "" {
		sum := sha256.Sum256([]byte(stateDir))
		paths = slices.Insert(paths, 0, filepath.Join(dir, "run-"+hex.EncodeToString(sum[:4])+".sock"))
	}
	return paths
}

// listen makes the socket for runs. Without one the daemon runs all the same, and `rota fence` in a run asks
// Redis by the config: it returns nil then, and the log says why.
func listen(c *config.Config, log *slog.Logger) *socket.Server {
	var faults []error
	for _, path := range socketPaths(c.StateDir) {
		s, err := socket.Listen(path)
		if err == nil {
			return s
		}
		faults = append(faults, err)
	}
	log.Warn("socket not served", "err", errors.Join(faults...), "effect", "rota fence in a run needs the password of redis")
	return nil
}

// guarded is the fleet's guarded values, over a client of their own: it opens no connection before it is
// used.
func guarded(c *config.Config, login *connect.Login) (f *fence.Redis, closeIt func(), err error) {
	client, err := connect.OpenAs(c, login)
	if err != nil {
		return nil, nil, err
	}
	f, err = fence.NewRedis(client, fence.RedisOptions{Prefix: fence.NamespacePrefix(c.Namespace), CallTimeout: c.Redis.OpTimeout})
	if err != nil {
		_ = client.Close()
		return nil, nil, err
	}
	return f, func() { _ = client.Close() }, nil
}
