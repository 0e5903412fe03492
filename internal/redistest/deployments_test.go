package redistest

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A slot moves with its keys, and the cluster's clients follow.
func TestCluster_MovesASlot(t *testing.T) {
	t.Parallel()
	c := Cluster(t)
	client := c.Client()
	if err := client.Set(t.Context(), "{a}:1", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	slot := c.Slot("{a}:1")
	from, to := c.Owner(slot)
	c.BeginMove(slot, from, to)
	if err := client.Set(t.Context(), "{a}:2", "new", 0).Err(); err != nil { // by ASK
		t.Errorf("SET in a slot that moves: %v", err)
	}
	c.MoveKeys(slot, from, to)
	c.EndMove(slot, to)
	if got := client.Get(t.Context(), "{a}:1").Val(); got != "v" {
		t.Errorf("GET after the move = %q, want v", got)
	}
	if owner, _ := c.Owner(slot); owner != to {
		t.Errorf("the owner of slot %d is %s, want %s", slot, owner.Addr(), to.Addr())
	}
}

func TestSentinel_FailsOver(t *testing.T) {
	t.Parallel()
	master := Server(t)
	replica := Replica(t, master)
	sentinel := Sentinel(t, master)
	sentinel.AwaitReplica()
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: MasterName, SentinelAddrs: []string{sentinel.Addr()}})
	t.Cleanup(func() { _ = client.Close() })
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	master.Kill()
	sentinel.AwaitMaster(replica)
	deadline := time.Now().Add(startTimeout)
	for client.Set(t.Context(), "k", "w", 0).Err() != nil {
		if time.Now().After(deadline) {
			t.Fatal("SET is still refused after the failover")
		}
	}
}

func TestTLSServer_WantsACertificate(t *testing.T) {
	c := Certificates(t)
	_, addr := TLSServer(t, c)
	ca, err := os.ReadFile(c.CA)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	cert, err := tls.LoadX509KeyPair(c.ClientCert, c.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, with := range []bool{true, false} {
		conf := &tls.Config{RootCAs: pool, ServerName: "redis.test"}
		if with {
			conf.Certificates = []tls.Certificate{cert}
		}
		client := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: conf, MaxRetries: -1, DialerRetries: 1})
		if err := client.Ping(t.Context()).Err(); (err == nil) != with {
			t.Errorf("PING, with a certificate %t: %v", with, err)
		}
		_ = client.Close()
	}
}
