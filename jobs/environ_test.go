package jobs

import (
	"os/user"
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
	}
	if !slices.Equal(got, want) {
		t.Errorf("Environ:\n got %q\nwant %q", got, want)
	}
}

func TestBaseEnv_Layers(t *testing.T) {
	backup := &user.User{Username: "backup", HomeDir: "/var/backups", Uid: "34"}
	const path = "PATH=" + DefaultPath
	for _, c := range []struct {
		name string
		u    *user.User
		zone string
		pass []string
		env  map[string]string
		want string // joined by spaces
	}{
		{"nothing given", nil, "", nil, nil, path + " HOME=/ SHELL=/bin/sh LANG=C.UTF-8 TZ=UTC"},
		{
			"a user and a zone", backup, "Europe/Berlin", nil, nil,
			path + " HOME=/var/backups USER=backup LOGNAME=backup SHELL=/bin/sh LANG=C.UTF-8 TZ=Europe/Berlin",
		},
		{
			"the job's own wins over what passes, and that over the base", nil, "",
			[]string{"LANG=de_DE.UTF-8", "PROXY=p", "B=daemon"},
			map[string]string{"B": "job", "A": "1", "PATH": "/bin"},
			"PATH=/bin HOME=/ SHELL=/bin/sh LANG=de_DE.UTF-8 TZ=UTC PROXY=p B=job A=1",
		},
		{
			"Rota's names are not theirs", nil, "",
			[]string{"ROTA_CONFIG=/etc/x"},
			map[string]string{"ROTA_RUN": "forged", "ROTAS": "kept"},
			path + " HOME=/ SHELL=/bin/sh LANG=C.UTF-8 TZ=UTC ROTAS=kept",
		},
		{
			"an empty value is a value", nil, "", nil,
			map[string]string{"LANG": ""},
			path + " HOME=/ SHELL=/bin/sh LANG= TZ=UTC",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("DAEMON_SECRET", "hunter2")
			if got := strings.Join(BaseEnv(c.u, c.zone, c.pass, c.env), " "); got != c.want {
				t.Errorf("BaseEnv:\n got %s\nwant %s", got, c.want)
			}
		})
	}
}
