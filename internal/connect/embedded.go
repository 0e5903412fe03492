package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"github.com/alicebob/miniredis/v2"
)

// Embedded is a Redis inside this process, for trying Rota on one host. It keeps nothing: when
// the process ends, everything it knew is gone.
type Embedded struct {
	redis    *miniredis.Miniredis
	listener net.Listener
	wg       sync.WaitGroup
}

// StartEmbedded serves a Redis on a unix socket in stateDir, which only this user can open.
// The daemon that calls it must have the folder to itself.
func StartEmbedded(ctx context.Context, stateDir string) (*Embedded, error) {
	path := socket(stateDir)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("embedded redis: %w", err)
	}
	e, err := ServeEmbedded(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		e.Close()
		return nil, fmt.Errorf("embedded redis: %w", err)
	}
	return e, nil
}

// ServeEmbedded serves a Redis at an address as [net.Listen] takes it. The end of ctx ends only
// the start; Close ends the server.
func ServeEmbedded(ctx context.Context, network, address string) (*Embedded, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("embedded redis: %w", err)
	}
	e := &Embedded{redis: miniredis.NewMiniRedis(), listener: l}
	e.redis.ClockTTL(true) // otherwise its keys never expire
	e.wg.Go(e.serve)
	return e, nil
}

// Addr is where it listens.
func (e *Embedded) Addr() net.Addr { return e.listener.Addr() }

// Close ends the server and every connection to it.
func (e *Embedded) Close() {
	_ = e.listener.Close()
	e.redis.Close()
	e.wg.Wait()
}

func (e *Embedded) serve() {
	for {
		c, err := e.listener.Accept()
		if err != nil {
			return
		}
		e.wg.Go(func() { e.pass(c) })
	}
}

// pass copies between a connection and the server, which itself knows only TCP and pipes.
func (e *Embedded) pass(c net.Conn) {
	defer func() { _ = c.Close() }()
	inner, err := e.redis.Dial()
	if err != nil {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(inner, c)
		_ = inner.Close()
	})
	_, _ = io.Copy(c, inner)
	_ = c.Close()
	wg.Wait()
}
