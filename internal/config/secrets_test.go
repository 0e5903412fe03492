package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// G06: characters that URLs and editors treat in their own way arrive as they were meant.
func TestLoad_PasswordsArrive(t *testing.T) {
	for password, encoded := range map[string]string{
		"p@ss/w#rd": "p%40ss%2Fw%23rd",
		"key==":     "key==",
		"a+b":       "a+b",
		"100%":      "100%25",
		"p:w?x":     "p%3Aw%3Fx",
		" blanks ":  "%20blanks%20",
		"käse":      "k%C3%A4se",
	} {
		t.Run(password, func(t *testing.T) {
			for how, files := range map[string]map[string]string{
				"url":      {"rota.toml": "[redis]\nurl = 'redis://me:" + encoded + "@127.0.0.1:6379/0'\n"},
				"password": {"rota.toml": "[redis]\nusername = 'me'\npassword = '" + password + "'\n"},
				"password_file": {
					"rota.toml": "[redis]\nusername = 'me'\npassword_file = 'redis.password'\n", "redis.password": password + "\n",
				},
				"password_file with CRLF": {
					"rota.toml": "[redis]\nusername = 'me'\npassword_file = 'redis.password'\n", "redis.password": password + "\r\n",
				},
				"password_file without a line end": {
					"rota.toml": "[redis]\nusername = 'me'\npassword_file = 'redis.password'\n", "redis.password": password,
				},
			} {
				c, err := load(write(t, files), plain())
				if err != nil {
					t.Errorf("%s: load = %v", how, err)
					continue
				}
				if got := c.Redis.Password.Reveal(); got != password {
					t.Errorf("%s: password = %q, want %q", how, got, password)
				}
				if c.Redis.Username != "me" || c.Redis.URL != "redis://127.0.0.1:6379/0" {
					t.Errorf("%s: user %q, URL %q, want both without the password", how, c.Redis.Username, c.Redis.URL)
				}
			}
		})
	}
}

// What the config takes for a URL, the client must too: it gets the one that is left.
func TestLoad_URLsTheClientUnderstands(t *testing.T) {
	for url, addr := range map[string]string{
		"redis://127.0.0.1":                      "127.0.0.1:6379",
		"redis://redis_1.example.org:7000/3":     "redis_1.example.org:7000",
		"redis://[::1]:6379/0":                   "[::1]:6379",
		"rediss://me:3cr3t@redis.example.org/1/": "redis.example.org:6379",
		"unix:///run/redis.sock":                 "/run/redis.sock",
		"unix://me:3cr3t@/run/redis.sock?db=2":   "/run/redis.sock",
	} {
		c := mustLoad(t, "[redis]\nurl = '"+url+"'\n")
		opt, err := redis.ParseURL(c.Redis.URL)
		if err != nil || opt.Addr != addr || opt.Password != "" || opt.Username != "" {
			t.Errorf("url %s became %s, of which the client says %+v, %v; want %s and no password", url, c.Redis.URL, opt, err, addr)
		}
		if c.Redis.Embedded() {
			t.Errorf("url %s is embedded", url)
		}
	}
	if c := mustLoad(t, "[redis]\nurl = 'embedded'\n"); !c.Redis.Embedded() || c.Redis.URL != "embedded" {
		t.Errorf("url embedded = %+v, want it embedded", c.Redis)
	}
}

// Y10: systemd's directory of credentials comes before the config's own, and the file is read
// anew with every load.
func TestLoad_PasswordFileOfCredentials(t *testing.T) {
	path := write(t, map[string]string{
		"rota.toml":         "[redis]\npassword_file = 'redis.password'\n[http]\ntoken_file = 'token'\n",
		"redis.password":    "beside\n",
		"credentials/redis": "", "credentials/redis.password": "first\n",
	})
	dir := filepath.Dir(path)
	env := plain()
	if c, err := load(path, env); err != nil || c.Redis.Password.Reveal() != "beside" || c.HTTP.TokenFile != filepath.Join(dir, "token") {
		t.Errorf("load without $CREDENTIALS_DIRECTORY = %+v, %v, want the files beside the config", c, err)
	}
	env.getenv = func(name string) string {
		if name == "CREDENTIALS_DIRECTORY" {
			return filepath.Join(dir, "credentials")
		}
		return ""
	}
	for _, password := range []string{"first", "second"} {
		if err := os.WriteFile(filepath.Join(dir, "credentials/redis.password"), []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := load(path, env)
		if err != nil || c.Redis.Password.Reveal() != password || c.HTTP.TokenFile != filepath.Join(dir, "credentials/token") {
			t.Errorf("load with $CREDENTIALS_DIRECTORY = %+v, %v, want %q and the token beside it", c, err, password)
		}
	}
}

func TestLoad_PasswordFilesRefused(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"empty":          {"\n", `"redis.password" is empty`},
		"two lines":      {"3cr3t\n3cr3t\n", `"redis.password" has more than one line`},
		"NUL":            {"3cr3t\x00", `"redis.password" has more than one line`},
		"something else": {strings.Repeat("3cr3t\n", 20_000), `"redis.password" is not a file with a password in it`},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, map[string]string{"rota.toml": "[redis]\npassword_file = 'redis.password'\n", "redis.password": tc.text})
			want := []string{"rota.toml:2: redis.password_file: " + tc.want}
			if got := faultsOf(t, path, plain()); !slices.Equal(got, want) {
				t.Errorf("load = %q, want %q", got, want)
			}
		})
	}
}

// T17: a password that everybody on the host can read is said, and only then.
func TestLoad_ReadableSecretsAreWarnedOf(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		config     os.FileMode
		password   os.FileMode
		want       string
	}{
		{"password in the config", "password = '3cr3t'", 0o644, 0o600, "rota.toml:2: redis.password: everybody can read the password in this file (mode 0644); use password_file, or chmod 0640"},
		{"password in the URL", "url = 'redis://:3cr3t@127.0.0.1'", 0o604, 0o600, "rota.toml:2: redis.url: everybody can read the password in this file (mode 0604); use password_file, or chmod 0640"},
		{"password file", "password_file = 'pw'", 0o644, 0o644, `rota.toml:2: redis.password_file: everybody can read "pw" (mode 0644); chmod 0600`},
		{"only the group can", "password = '3cr3t'", 0o640, 0o600, ""},
		{"a password file of one's own", "password_file = 'pw'", 0o644, 0o600, ""},
		{"no password", "username = ''", 0o644, 0o644, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := write(t, map[string]string{"rota.toml": "[redis]\n" + tc.text + "\n", "pw": "3cr3t\n"})
			dir := filepath.Dir(path)
			for file, mode := range map[string]os.FileMode{path: tc.config, filepath.Join(dir, "pw"): tc.password} {
				if err := os.Chmod(file, mode); err != nil {
					t.Fatal(err)
				}
			}
			c, err := load(path, plain())
			if err != nil {
				t.Fatal(err)
			}
			got := strings.ReplaceAll(strings.Join(c.Warnings, "\n"), dir+"/", "")
			if got != tc.want {
				t.Errorf("Warnings = %q, want %q", got, tc.want)
			}
			mentionsNoSecret(t, c)
		})
	}
}

func TestSecret_ShowsNowhere(t *testing.T) {
	s := NewSecret("3cr3t")
	hidden := struct{ s Secret }{s}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("loaded", "password", s, "config", Redis{Password: s})
	slog.New(slog.NewJSONHandler(&log, nil)).Info("loaded", "password", s, "config", Redis{Password: s})
	text, err := json.Marshal(map[string]any{"a": s, "b": []Secret{s}, "c": Redis{Password: s}})
	if err != nil {
		t.Fatal(err)
	}
	all := []string{log.String(), string(text), s.String(), s.GoString()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		for _, v := range []any{s, &s, hidden, &hidden, []Secret{s}, map[string]Secret{"a": s}, Redis{Password: s}, &Config{Redis: Redis{Password: s}}} {
			all = append(all, fmt.Sprintf(verb, v))
		}
	}
	for _, out := range all {
		if strings.Contains(out, marker) || strings.Contains(out, fmt.Sprintf("%x", marker)) || strings.Contains(out, fmt.Sprintf("%X", marker)) {
			t.Errorf("a secret is in %q", out)
		}
	}
	if got := s.Reveal(); got != "3cr3t" {
		t.Errorf("Reveal = %q, want the secret", got)
	}
	if got := fmt.Sprintf("%v|%s|%q", NewSecret(""), Secret{}, Secret{}.Reveal()); got != `||""` {
		t.Errorf("no secret prints as %q, want nothing", got)
	}
}
