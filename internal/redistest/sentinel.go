package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// MasterName is what a [Sentinel] calls the master that it watches.
const MasterName = "rota-test"

// Replica starts a [Server] that follows a master, and waits until it has all that the master has.
func Replica(t testing.TB, master *ServerProc, args ...string) *ServerProc {
	t.Helper()
	s := Server(t, append([]string{"--replicaof", "127.0.0.1", master.Port()}, args...)...)
	awaitReplica(t, master, s)
	return s
}

// awaitReplica waits until the replica has had a write of the master's and said so: the master calls it
// online before that, and sends it nothing until its first word, which may take a second.
func awaitReplica(t testing.TB, master, replica *ServerProc) {
	t.Helper()
	await(t, "the replica follows", func() bool {
		return strings.Contains(fmt.Sprint(replica.Do("INFO", "replication")), "master_link_status:up")
	})
	c, key, n := master.Client(), "", 0
	defer func() { _ = c.Close() }()
	await(t, "the replica confirms a write", func() bool {
		if key == "" {
			n++
			key = fmt.Sprint("redistest-", n)
		}
		pipe := c.Pipeline()
		set := pipe.Set(t.Context(), key, "", time.Second)
		pipe.Del(t.Context(), key)
		have := redis.NewIntCmd(t.Context(), "wait", 1, 500)
		_ = pipe.Process(t.Context(), have)
		_, _ = pipe.Exec(t.Context())
		if redis.HasErrorPrefix(set.Err(), "MOVED") {
			key = "" // of another node's slots
		}
		return set.Err() == nil && have.Val() > 0
	})
}

// Sentinel starts one that watches a master and its replicas, alone: it decides by itself, half a second
// after the master fell silent. Lines are more of its configuration, as "sentinel auth-pass NAME PASSWORD".
func Sentinel(t testing.TB, master *ServerProc, lines ...string) *ServerProc {
	t.Helper()
	s := newServer(t, nil)
	s.argv = func() ([]string, error) {
		file := filepath.Join(s.dir, "sentinel.conf") // it writes to it
		text := append([]string{
			"port " + s.Port(), "bind 127.0.0.1", "dir " + s.dir,
			"sentinel monitor " + MasterName + " 127.0.0.1 " + master.Port() + " 1",
			"sentinel down-after-milliseconds " + MasterName + " 500",
			"sentinel failover-timeout " + MasterName + " 5000",
		}, lines...)
		return []string{file, "--sentinel"}, os.WriteFile(file, []byte(strings.Join(text, "\n")+"\n"), 0o600)
	}
	return s.launch()
}

// AwaitReplica waits until a Sentinel knows of a replica that could become the master.
func (s *ServerProc) AwaitReplica() {
	s.t.Helper()
	await(s.t, "the sentinel knows the replica", func() bool {
		return strings.Contains(fmt.Sprint(s.Do("SENTINEL", "REPLICAS", MasterName)), "master-link-status:ok")
	})
}

// AwaitMaster waits until a Sentinel calls this server the master, and it is one.
func (s *ServerProc) AwaitMaster(master *ServerProc) {
	s.t.Helper()
	await(s.t, "the replica became the master", func() bool {
		addr, _ := s.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName).([]any)
		return len(addr) == 2 && addr[1] == master.Port() && strings.Contains(fmt.Sprint(master.Do("INFO", "replication")), "role:master")
	})
}
