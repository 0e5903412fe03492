// Package connect makes the Redis clients of every command out of the config.
//
// They are set up alike: no retries inside the client (a claim that is repeated must say so,
// and go-redis repeats SET NX after a lost reply as if it had not been sent), deadlines of
// contexts obeyed on the wire, and no look-ups of its own.
package connect

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"path/filepath"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"rota/internal/config"
	"rota/locking"
)

// Open returns a client for the config's Redis: one server, a Cluster, or what Sentinels call the
// master. It does not connect. The caller closes it.
//
// For redis.url = "embedded" it is a client of the server inside the daemon that runs with the
// same state_dir on this machine.
func Open(c *config.Config) (redis.UniversalClient, error) { return OpenAs(c, NewLogin(c.Redis)) }

// OpenAs is Open with a login that may change: every new connection uses what it says then.
func OpenAs(c *config.Config, login *Login) (redis.UniversalClient, error) {
	r := c.Redis
	if r.Embedded() {
		return redis.NewClient(common(c, &redis.Options{Addr: "embedded", Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket(c.StateDir))
		}})), nil
	}
	opt, err := redis.ParseURL(r.URL)
	if err != nil {
		// The config has checked the URL; what ParseURL says could show parts of it.
		return nil, fmt.Errorf("redis.url: not understood by the client")
	}
	opt.CredentialsProvider = login.reveal
	opt.TLSConfig = nil // the dialer does it
	opt.Dialer = login.dial
	common(c, opt)
	switch {
	case r.Master != "":
		return redis.NewFailoverClient(withSentinels(c, opt)), nil
	case len(r.Addrs) > 0:
		return redis.NewClusterClient(clustered(r.Addrs, opt)), nil
	}
	return redis.NewClient(opt), nil
}

// common sets what is the same for every client.
func common(c *config.Config, opt *redis.Options) *redis.Options {
	opt.ClientName = "rota"
	opt.DisableIdentity = true // CLIENT SETINFO, two commands more for each connection
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
	return opt
}

// withSentinels makes of a client's options those of one that asks Sentinels for its server.
func withSentinels(c *config.Config, opt *redis.Options) *redis.FailoverOptions {
	return &redis.FailoverOptions{
		MasterName: c.Redis.Master, SentinelAddrs: c.Redis.Addrs,
		SentinelUsername: c.Redis.SentinelUsername, SentinelPassword: c.Redis.SentinelPassword.Reveal(),
		Dialer: opt.Dialer, CredentialsProvider: opt.CredentialsProvider, DB: opt.DB,
		ClientName: opt.ClientName, DisableIdentity: opt.DisableIdentity,
		MaxRetries: opt.MaxRetries, ContextTimeoutEnabled: opt.ContextTimeoutEnabled,
		DialTimeout: opt.DialTimeout, DialerRetries: opt.DialerRetries,
		ReadTimeout: opt.ReadTimeout, WriteTimeout: opt.WriteTimeout, PoolTimeout: opt.PoolTimeout,
		PipelinePoolSize: opt.PipelinePoolSize,
		// It hears of a new master from the Sentinels too; this is for when it does not.
		ConnMaxLifetime: locking.SentinelConnLife(c.Lease.TTL),
	}
}

// clustered makes of a client's options those of a Cluster's. Scripts are not repeated by it either: see
// package locking. All keys of a fleet are in one slot, so it talks to one node at a time.
func clustered(addrs []string, opt *redis.Options) *redis.ClusterOptions {
	return &redis.ClusterOptions{
		Addrs:  addrs,
		Dialer: opt.Dialer, CredentialsProvider: opt.CredentialsProvider,
		ClientName: opt.ClientName, DisableIdentity: opt.DisableIdentity,
		MaxRetries: opt.MaxRetries, ContextTimeoutEnabled: opt.ContextTimeoutEnabled,
		DialTimeout: opt.DialTimeout, DialerRetries: opt.DialerRetries,
		ReadTimeout: opt.ReadTimeout, WriteTimeout: opt.WriteTimeout, PoolTimeout: opt.PoolTimeout,
		PipelinePoolSize:         opt.PipelinePoolSize,
		MaintNotificationsConfig: opt.MaintNotificationsConfig,
		DisableRoutingPolicies:   true, // it would ask for COMMAND, and wait five seconds whatever the deadline
	}
}

// Login is what new connections of a client show of this host, and by which they know the server: user
// and password, certificate and authorities. It is safe for concurrent use.
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

// dial opens a connection, by TLS if the config says so; the handshake is part of what ctx bounds.
// Servers, nodes of a Cluster and Sentinels are all reached in the same way.
func (l *Login) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	r := l.redis.Load()
	ctx, cancel := context.WithTimeout(ctx, r.OpTimeout)
	defer cancel()
	d := &net.Dialer{}
	if r.TLS == nil {
		return d.DialContext(ctx, network, addr)
	}
	conf := &tls.Config{RootCAs: r.TLS.Roots, ServerName: r.TLS.ServerName, MinVersion: tls.VersionTLS12}
	if pair := r.TLS.Client.Reveal(); pair != nil {
		conf.Certificates = []tls.Certificate{*pair}
	}
	return (&tls.Dialer{NetDialer: d, Config: conf}).DialContext(ctx, network, addr)
}

// socket is where an embedded Redis can be reached by other commands on this machine.
func socket(stateDir string) string { return filepath.Join(stateDir, "embedded.sock") }
