package server

import (
	"maps"
	"testing"
	"time"

	"rota/internal/redistest"
)

func TestStats_ReadWhatRedisSays(t *testing.T) {
	const text = "# Commandstats\r\n" +
		"cmdstat_get:calls=3,usec=5,usec_per_call=1.67,rejected_calls=0,failed_calls=0\r\n" +
		"cmdstat_client|setinfo:calls=2,usec=7,usec_per_call=3.50,rejected_calls=0,failed_calls=0\r\n" +
		"used_memory:1\r\n"
	want := Stats{"get": {3, 5 * time.Microsecond}, "client|setinfo": {2, 7 * time.Microsecond}}
	if got := parse(text); !maps.Equal(got, want) {
		t.Errorf("parse = %v, want %v", got, want)
	}
	later := Stats{"get": {4, 9 * time.Microsecond}, "client|setinfo": want["client|setinfo"], "set": {1, 0}}
	if got, want := later.Since(want), (Stats{"get": {1, 4 * time.Microsecond}, "set": {1, 0}}); !maps.Equal(got, want) {
		t.Errorf("Since = %v, want %v", got, want)
	}
}

// Two commands of which one goes out as a pipeline share the connection.
func TestOneConnection_IsOne(t *testing.T) {
	s := redistest.Server(t)
	c := OneConnection(t, s.Addr())
	id := func() int64 { return c.ClientID(t.Context()).Val() }
	pipe := c.Pipeline()
	inPipe := pipe.ClientID(t.Context())
	first := id()
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := inPipe.Val(); got != first || first == 0 {
		t.Errorf("CLIENT ID in a pipeline = %d, want that of the plain command, %d", got, first)
	}
}
