package redistest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// slots is how many a Cluster has (Redis documentation, "Cluster specification").
const slots = 16384

// ClusterProc is a Redis Cluster of masters, which share the slots evenly and have no replicas at first.
type ClusterProc struct {
	t     testing.TB
	args  []string
	Nodes []*ServerProc // the masters
}

// Cluster starts one of three nodes, each a [Server] with these args besides. It takes two to three
// seconds: a node serves no writes in its first two.
func Cluster(t testing.TB, args ...string) *ClusterProc {
	t.Helper()
	c := &ClusterProc{t: t, args: args}
	const nodes = 3
	for range nodes {
		c.Nodes = append(c.Nodes, c.node())
	}
	for i, s := range c.Nodes {
		s.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1) // before they meet: they need not settle it among them
		s.Do("CLUSTER", "ADDSLOTSRANGE", i*slots/nodes, (i+1)*slots/nodes-1)
	}
	for _, s := range c.Nodes[1:] {
		c.meet(s)
	}
	await(t, "the cluster is whole", func() bool {
		for _, s := range c.Nodes {
			info := fmt.Sprint(s.Do("CLUSTER", "INFO"))
			if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, fmt.Sprintf("cluster_size:%d", nodes)) {
				return false
			}
		}
		return true
	})
	return c
}

// Replicate adds a node that follows one of the masters, and waits until it does.
func (c *ClusterProc) Replicate(master *ServerProc) *ServerProc {
	c.t.Helper()
	s := c.node()
	c.meet(s)
	await(c.t, "the new node knows its master", func() bool {
		return strings.Contains(fmt.Sprint(s.Do("CLUSTER", "NODES")), c.id(master))
	})
	s.Do("CLUSTER", "REPLICATE", c.id(master))
	awaitReplica(c.t, master, s)
	return s
}

func (c *ClusterProc) node() *ServerProc {
	s := newServer(c.t, append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000"}, c.args...))
	plain := s.argv
	s.argv = func() ([]string, error) {
		bus, err := freePort() // by itself it would be the port and 10000, which may be no port at all
		if err != nil {
			return nil, err
		}
		line, err := plain()
		return append(line, "--cluster-port", portText(bus)), err
	}
	return s.launch()
}

func (c *ClusterProc) meet(s *ServerProc) {
	bus, _, _ := strings.Cut(c.myself(s), ",")
	_, busPort, _ := strings.Cut(bus, "@")
	c.Nodes[0].Do("CLUSTER", "MEET", "127.0.0.1", s.Port(), busPort)
}

// Addrs returns host:port of every node.
func (c *ClusterProc) Addrs() []string {
	addrs := make([]string, len(c.Nodes))
	for i, s := range c.Nodes {
		addrs[i] = s.Addr()
	}
	return addrs
}

// Client returns a new client of the cluster, closed with the test.
func (c *ClusterProc) Client() *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), ContextTimeoutEnabled: true})
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}

// Slot returns the slot of a key.
func (c *ClusterProc) Slot(key string) int {
	c.t.Helper()
	slot, ok := c.Nodes[0].Do("CLUSTER", "KEYSLOT", key).(int64)
	if !ok {
		c.t.Fatalf("redistest: CLUSTER KEYSLOT %q: no slot", key)
	}
	return int(slot)
}

// Owner returns the node that has a slot, by the cluster's own word, and another one.
func (c *ClusterProc) Owner(slot int) (owner, other *ServerProc) {
	c.t.Helper()
	for _, s := range c.Nodes {
		for field := range strings.FieldsSeq(c.line(s, "myself")) {
			from, to, isRange := strings.Cut(field, "-")
			first, err := strconv.Atoi(from)
			last := first
			if isRange && err == nil {
				last, err = strconv.Atoi(to)
			}
			if err == nil && first <= slot && slot <= last {
				owner = s
			}
		}
		if owner != s {
			other = s
		}
	}
	if owner == nil {
		c.t.Fatalf("redistest: nobody has slot %d", slot)
	}
	return owner, other
}

// BeginMove begins to move a slot, as a reshard does: from now on the one answers ASK for keys that
// it has not, and the other takes them from those that ask.
func (c *ClusterProc) BeginMove(slot int, from, to *ServerProc) {
	c.t.Helper()
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", c.id(from))
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", c.id(to))
}

// MoveKeys moves the keys that the slot has, or those of them that are named.
func (c *ClusterProc) MoveKeys(slot int, from, to *ServerProc, keys ...string) {
	c.t.Helper()
	if len(keys) == 0 {
		list, _ := from.Do("CLUSTER", "GETKEYSINSLOT", slot, 10000).([]any)
		for _, k := range list {
			keys = append(keys, fmt.Sprint(k))
		}
	}
	for _, key := range keys {
		from.Do("MIGRATE", "127.0.0.1", to.Port(), key, 0, 5000, "REPLACE")
	}
}

// EndMove tells every node that the slot has moved.
func (c *ClusterProc) EndMove(slot int, to *ServerProc) {
	c.t.Helper()
	id := c.id(to)
	to.Do("CLUSTER", "SETSLOT", slot, "NODE", id) // first: nobody may be left to ask
	for _, s := range c.Nodes {
		s.Do("CLUSTER", "SETSLOT", slot, "NODE", id)
	}
}

func (c *ClusterProc) id(s *ServerProc) string {
	id, _, _ := strings.Cut(c.line(s, "myself"), " ")
	return id
}

// myself is the node's address with the port of its bus: host:port@bus.
func (c *ClusterProc) myself(s *ServerProc) string { return strings.Fields(c.line(s, "myself"))[1] }

func (c *ClusterProc) line(s *ServerProc, flag string) string {
	c.t.Helper()
	for line := range strings.Lines(fmt.Sprint(s.Do("CLUSTER", "NODES"))) {
		if strings.Contains(line, flag) {
			return line
		}
	}
	c.t.Fatalf("redistest: CLUSTER NODES of %s has no %s", s.Addr(), flag)
	return ""
}

// await waits for what a server does by itself.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * startTimeout); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("redistest: not within %s: %s", 2*startTimeout, what)
		}
	}
}
