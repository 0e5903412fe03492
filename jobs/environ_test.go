//go:build linux

package jobs

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestEnviron_Names(t *testing.T) {
	zone := time.FixedZone("east", 2*3600)
	got := Environ(Run{
		Job: "a", ID: "01JD", Tick: time.Date(2026, 11, 29, 4, 0, 0, 250e6, zone), Attempt: 2,
		Token: 9007199254740991, Lock: "l", Host: "h", Namespace: "n",
	})
	want := []string{
		"ROTA_JOB=a", "ROTA_TICK=2026-11-29T02:00:00.25Z", "ROTA_RUN=01JD", "ROTA_ATTEMPT=2",
		"ROTA_FENCING_TOKEN=9007199254740991", "ROTA_LOCK=l", "ROTA_HOST=h", "ROTA_NAMESPACE=n",
		"ROTA_CONFIG=",
		"ROTA_SOCKET=",
	}
	if !slices.Equal(got, want) {
		t.Errorf("Environ:\n got %q\nwant %q", got, want)
	}
}

func TestBaseEnv_Layers(t *testing.T) {
	backup := &Account{Name: "backup", UID: 34, Home: "/var/backups", Shell: "/bin/bash"}
	const path = "PATH=" + DefaultPath
	for _, c := range []struct {
		name string
		a    *Account
		zone string
		pass []string
		want string // joined by spaces
	}{
		{"nothing given", nil, "", nil, path + " HOME=/ SHELL=/bin/sh LANG=C.UTF-8 TZ=UTC"},
		{
			"an account and a zone", backup, "Europe/Berlin", nil,
			path + " HOME=/var/backups USER=backup LOGNAME=backup SHELL=/bin/bash LANG=C.UTF-8 TZ=Europe/Berlin",
		},
		{
			"a number without an entry", &Account{UID: 34, Home: "/", Shell: "/bin/sh"}, "", nil,
			path + " HOME=/ SHELL=/bin/sh LANG=C.UTF-8 TZ=UTC",
		},
		{
			"what passes wins over the base", backup, "",
			[]string{"LANG=de_DE.UTF-8", "PROXY=p", "HOME=/root"},
			path + " HOME=/root USER=backup LOGNAME=backup SHELL=/bin/bash LANG=de_DE.UTF-8 TZ=UTC PROXY=p",
		},
		{
			"Rota's names are not the daemon's to pass", nil, "",
			[]string{"ROTA_CONFIG=/etc/x", "ROTAS=kept"},
			path + " HOME=/ SHELL=/bin/sh LANG=C.UTF-8 TZ=UTC ROTAS=kept",
		},
		{"an empty value is a value", nil, "", []string{"LANG="}, path + " HOME=/ SHELL=/bin/sh LANG= TZ=UTC"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("DAEMON_SECRET", "hunter2")
			if got := strings.Join(BaseEnv(c.a, c.zone, c.pass), " "); got != c.want {
				t.Errorf("BaseEnv:\n got %s\nwant %s", got, c.want)
			}
		})
	}
}
