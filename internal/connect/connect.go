// Package connect makes the Redis clients of every command out of the config.
//
// They are set up alike: no retries inside the client (a claim that is repeated must say so,
// and go-redis repeats SET NX after a lost reply as if it had not been sent), deadlines of
// contexts obeyed on the wire, and no look-ups of its own.
package connect

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"rota/internal/config"
)

// Open returns a client for the config's Redis. It does not connect. The caller closes it.
//
// For redis.url = "embedded" it is a client of the server inside the daemon that runs with the
// same state_dir on this machine.
func Open(c *config.Config) (*redis.Client, error) { return OpenAs(c, NewLogin(c.Redis)) }

// OpenAs is Open with a login that may change: every new connection uses what it says then.
func OpenAs(c *config.Config, login *Login) (*redis.Client, error) {
	if c.Redis.Embedded() {
		return open(c, &redis.Options{Addr: "embedded", Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket(c.StateDir))
		}}), nil
	}
	opt, err := redis.ParseURL(c.Redis.URL)
	if err != nil {
		// The config has checked the URL; what ParseURL says could show parts of it.
		return nil, fmt.Errorf("redis.url: not understood by the client")
	}
	opt.CredentialsProvider = login.reveal
	return open(c, opt), nil
}

func open(c *config.Config, opt *redis.Options) *redis.Client {
	opt.ClientName = "rota"
	opt.MaxRetries = -1
	opt.ContextTimeoutEnabled = true
	opt.DialTimeout = c.Redis.OpTimeout
	opt.DialerRetries = 1
	opt.ReadTimeout = c.Redis.OpTimeout
	opt.WriteTimeout = c.Redis.OpTimeout
	opt.PoolTimeout = c.Redis.OpTimeout
	// One pool for everything. A second one for pipelines would hand out its last dial error for
	// up to a second after Redis is back, while the first works already.
	opt.PipelinePoolSize = -1
	// The mode looks the address up in DNS, at every start, for a service that only some hosted
	// servers have.
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(opt)
}

// Login is the user and password of a client. It is safe for concurrent use.
type Login struct{ redis atomic.Pointer[config.Redis] }

// NewLogin makes a Login of the config's.
func NewLogin(r config.Redis) *Login {
	l := &Login{}
	l.Set(r)
	return l
}

// Set changes the login for connections made from now on.
func (l *Login) Set(r config.Redis) { l.redis.Store(&r) }

func (l *Login) reveal() (user, password string) {
	r := l.redis.Load()
	return r.Username, r.Password.Reveal()
}

// socket is where an embedded Redis can be reached by other commands on this machine.
func socket(stateDir string) string { return filepath.Join(stateDir, "embedded.sock") }
