package socket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"rota/locking/fence"
)

const (
	// maxConnections bounds the connections that are looked at at once; more wait to be accepted.
	// perRun bounds those of one run, so that none keeps the others waiting; more are told to come again.
	maxConnections = 16
	perRun         = 4

	defaultPatience = 5 * time.Second

	acceptPause = 100 * time.Millisecond // after an accept that failed
)

// Options of [Server.Serve].
type Options struct {
	// RunOf returns the id of the run that a process belongs to, "" if to none: [rota/jobs.Warden.RunOf].
	RunOf func(pid int) string
	// TokenOf returns the token of a run whose lease is trusted: [rota/scheduler.Scheduler.TokenOf].
	TokenOf func(run string) (token int64, ok bool)
	Fence   *fence.Redis

	// Patience bounds how long a request may take to arrive, and its reply to be taken. 0: 5 s.
	Patience time.Duration

	Logger *slog.Logger
}

// Server answers on a socket. It is safe for concurrent use. A nil one is none: its path is "", and it
// answers nobody.
type Server struct {
	listener *net.UnixListener
	path     string
	opt      Options
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	work     sync.WaitGroup

	mu   sync.Mutex
	busy map[string]int // connections, by run
}

// Listen makes the socket at path, which every user may connect to who can reach it. A socket that is there
// is replaced: whoever made it is gone, since the caller has the path to himself. Anything else that is there
// is an error.
func Listen(path string) (*Server, error) {
	info, err := os.Lstat(path)
	switch {
	case err == nil && info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("socket: %s is there and no socket", path)
	case err == nil:
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("socket: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	// To connect takes the right to write (unix(7)). Who may use it is asked of each connection.
	if err := os.Chmod(path, 0o666); err != nil { // see above
		return nil, fmt.Errorf("socket: %w", errors.Join(err, listener.Close()))
	}
	s := &Server{listener: listener, path: path, busy: map[string]int{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Path is where it listens.
func (s *Server) Path() string {
	if s == nil {
		return ""
	}
	return s.path
}

// Serve begins to answer, and returns. Who has connected before was kept waiting. It is called once.
func (s *Server) Serve(opt Options) {
	if s == nil {
		return
	}
	s.opt = opt
	s.opt.Patience = cmp.Or(opt.Patience, defaultPatience)
	s.work.Go(s.accept)
}

// Close removes the socket, breaks off every connection, and waits. Idempotent.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	err := s.listener.Close() // which removes it
	s.cancel()
	s.work.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (s *Server) accept() {
	room := make(chan struct{}, maxConnections)
	for {
		select {
		case room <- struct{}{}:
		case <-s.ctx.Done():
			return
		}
		conn, err := s.listener.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // no descriptors left, say
			s.opt.Logger.Warn("socket did not accept", "err", err)
			time.Sleep(acceptPause)
			<-room
			continue
		}
		s.work.Go(func() {
			defer func() { <-room }()
			s.serve(conn)
		})
	}
}

// serve sees one connection through.
func (s *Server) serve(conn *net.UnixConn) {
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(s.ctx, func() { _ = conn.Close() })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(s.opt.Patience))
	value, err := s.answer(conn)
	_ = conn.SetDeadline(time.Now().Add(s.opt.Patience))
	if err != nil {
		s.opt.Logger.Debug("socket request refused", "err", err)
		_ = writeLine(conn, refuse(err))
		return
	}
	_ = writeLine(conn, reply{V: version, Token: value.Token, Value: value.Data})
}

// answer finds out who asks, then what, and does it.
func (s *Server) answer(conn *net.UnixConn) (fence.Value, error) {
	run, err := s.identify(conn)
	if err != nil {
		return fence.Value{}, err
	}
	if !s.enter(run) {
		return fence.Value{}, fmt.Errorf("%w: run %s asks for more than %d things at once", errBusy, run, perRun)
	}
	defer s.leave(run)
	var r request
	if err := readLine(conn, &r); err != nil {
		return fence.Value{}, fmt.Errorf("%w request: %w", fence.ErrInvalid, err)
	}
	if r.V != version || r.Op != opFence {
		return fence.Value{}, fmt.Errorf("%w: this daemon knows version %d and %q, not %d and %q; it was started before rota was upgraded, or after",
			ErrRefused, version, opFence, r.V, r.Op)
	}
	// Not before the request is there: it may have been slow.
	token, ok := s.opt.TokenOf(run)
	switch {
	case !ok:
		return fence.Value{}, fmt.Errorf("%w: run %s", ErrLost, run)
	case r.Token != 0 && r.Token != token:
		return fence.Value{}, fmt.Errorf("%w: token %d is not that of run %s, which is %d", ErrRefused, r.Token, run, token)
	}
	if r.Value == nil {
		return s.opt.Fence.Raise(s.ctx, r.Key, token)
	}
	err = s.opt.Fence.Write(s.ctx, r.Key, token, r.Value)
	return fence.Value{Token: token, Data: r.Value}, err
}

// identify returns the run of whoever connected.
func (s *Server) identify(conn *net.UnixConn) (run string, err error) {
	p, err := peerOf(conn)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrRefused, err)
	}
	defer p.close()
	if run = s.opt.RunOf(p.pid); run == "" || !p.lives() {
		return "", fmt.Errorf("%w: process %d belongs to no run that goes on here", ErrRefused, p.pid)
	}
	return run, nil
}

func (s *Server) enter(run string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[run] == perRun {
		return false
	}
	s.busy[run]++
	return true
}

func (s *Server) leave(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[run]--; s.busy[run] == 0 {
		delete(s.busy, run)
	}
}
