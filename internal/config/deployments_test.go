package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"rota/internal/redistest"
)

// What docs/deployments.md shows is taken as it stands, the files beside it.
func TestLoad_DocumentedDeployments(t *testing.T) {
	page, err := os.ReadFile("../../docs/deployments.md")
	if err != nil {
		t.Fatal(err)
	}
	certs := redistest.Certificates(t)
	files := map[string]string{"redis-password": "3cr3t\n", "sentinel-password": "3cr3t\n"}
	for name, from := range map[string]string{"ca.pem": certs.CA, "rota.pem": certs.ClientCert, "rota.key": certs.ClientKey} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	kinds := map[string]bool{}
	for _, block := range regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		files["rota.toml"] = block[1]
		path := write(t, files)
		for name := range files {
			if err := os.Chmod(filepath.Join(filepath.Dir(path), name), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c, err := load(path, plain())
		if err != nil {
			t.Errorf("load of\n%s= %v", block[1], err)
			continue
		}
		if len(c.Warnings) > 0 {
			t.Errorf("Warnings of\n%s= %q, want none", block[1], c.Warnings)
		}
		what, _, _ := strings.Cut(c.Redis.Where(), " ")
		what, _, _ = strings.Cut(what, ":")
		kinds[what] = true
	}
	for _, kind := range []string{"redis", "rediss", "unix", "master", "cluster"} {
		if !kinds[kind] {
			t.Errorf("docs/deployments.md shows no config of kind %q", kind)
		}
	}
}
