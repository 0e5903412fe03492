package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rota/internal/redistest"
)

// tlsFiles writes a config with TLS, and a test's certificates beside it.
func tlsFiles(t *testing.T, table string) (path string) {
	t.Helper()
	certs := redistest.Certificates(t)
	path = write(t, map[string]string{"rota.toml": "[redis]\nurl = 'rediss://redis.test'\ntls = { " + table + " }\n"})
	for name, from := range map[string]string{
		"ca.pem": certs.CA, "me.pem": certs.ClientCert, "me.key": certs.ClientKey, "server.pem": certs.Cert, "server.key": certs.Key,
	} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestLoad_TLS(t *testing.T) {
	path := tlsFiles(t, "ca_file = 'ca.pem', cert_file = 'me.pem', key_file = 'me.key', server_name = 'redis.test'")
	c, err := load(path, plain())
	if err != nil {
		t.Fatal(err)
	}
	got := c.Redis.TLS
	if got == nil || got.Roots == nil || got.ServerName != "redis.test" || got.Client.Reveal() == nil {
		t.Fatalf("TLS = %+v, want authorities, a name and a certificate", got)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("Warnings = %q, want none", c.Warnings)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x"} {
		for _, v := range []any{got.Client, &got.Client, *got, got, c.Redis} {
			if out := fmt.Sprintf(verb, v); strings.Contains(out, "PRIVATE") || strings.Contains(out, "ecdsa") || strings.Contains(out, "Curve") {
				t.Errorf("%s shows a key: %s", verb, out)
			}
		}
	}
	if text, _ := got.Client.MarshalText(); string(text) != redacted {
		t.Errorf("MarshalText = %s, want %s", text, redacted)
	}

	plainTLS := mustLoad(t, "[redis]\nurl = 'rediss://redis.test'\n")
	if tls := plainTLS.Redis.TLS; tls == nil || tls.Roots != nil || tls.ServerName != "" || tls.Client.Reveal() != nil {
		t.Errorf("TLS of a URL alone = %+v, want the system's authorities", tls)
	}
	if c := mustLoad(t, "[redis]\nurl = 'redis://redis.test'\n"); c.Redis.TLS != nil {
		t.Errorf("TLS of redis:// = %+v, want none", c.Redis.TLS)
	}
}

func TestLoad_TLSFilesRefused(t *testing.T) {
	for table, want := range map[string]string{
		"cert_file = 'me.pem', key_file = 'server.key'": `redis.tls.key_file: "server.key" is not the key of the certificate in cert_file`,
		"cert_file = 'me.key', key_file = 'me.key'":     `redis.tls.cert_file: "me.key" holds no certificate in PEM`,
		"cert_file = 'me.pem', key_file = 'ca.pem'":     `redis.tls.key_file: "ca.pem" holds no private key in PEM; an encrypted one cannot be used`,
		"ca_file = 'me.key'":                            `redis.tls.ca_file: "me.key" holds no certificate in PEM`,
		"ca_file = '/dev/null'":                         `redis.tls.ca_file: "/dev/null" is no file`,
		"key_file = 'me.key'":                           `redis.tls.key_file: names a key without its certificate; set cert_file`,
	} {
		path := tlsFiles(t, table)
		got := faultsOf(t, path, plain())
		if !slices.Equal(got, []string{"rota.toml:3: " + want}) {
			t.Errorf("%s: load = %q, want %q", table, got, want)
		}
	}
	path := tlsFiles(t, "cert_file = 'me.pem', key_file = 'me.key'")
	if err := os.Chmod(filepath.Join(filepath.Dir(path), "me.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := load(path, plain())
	if err != nil || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], `redis.tls.key_file: everybody can read "me.key" (mode 0644); chmod 0600`) {
		t.Errorf("load with a key that everybody can read: %+v, %v, want a warning", c.Warnings, err)
	}
}

func TestLoad_SeveralServers(t *testing.T) {
	path := write(t, map[string]string{
		"rota.toml": `[redis]
url = "rediss://:3cr3t@/2"
addrs = ["s-1:26379", "[::1]:26379"]
master = "mymaster"
sentinel_username = "watcher"
sentinel_password_file = "pw"
wait_replicas = 1
`, "pw": "sentinels' own\n",
	})
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := load(path, plain())
	if err != nil {
		t.Fatal(err)
	}
	r := c.Redis
	if r.URL != "rediss:///2" || r.Password.Reveal() != "3cr3t" || r.SentinelPassword.Reveal() != "sentinels' own" ||
		r.SentinelUsername != "watcher" || r.WaitReplicas != 1 || r.TLS == nil || len(r.Addrs) != 2 {
		t.Errorf("Redis = %+v", r)
	}
	if got, want := r.Where(), "master mymaster of the sentinels s-1:26379, [::1]:26379"; got != want {
		t.Errorf("Where = %q, want %q", got, want)
	}
	if c := mustLoad(t, "[redis]\naddrs = ['a:1', 'b:2']\n"); c.Redis.URL != "redis:///0" || c.Redis.Where() != "cluster a:1, b:2" {
		t.Errorf("Redis = %+v at %s, want a cluster", c.Redis, c.Redis.Where())
	}
}
