package cli

import (
	"testing"

	"rota/internal/config"
)

func TestCheck_LackText(t *testing.T) {
	for _, c := range []struct {
		jobs []string
		want string
	}{
		{[]string{"a"}, "limits.cpu is not set: it rains, so a runs without it here"},
		{[]string{"a", "b"}, "limits.cpu is not set: it rains, so a and 1 other job run without it here"},
		{[]string{"a", "b", "c"}, "limits.cpu is not set: it rains, so a and 2 other jobs run without it here"},
	} {
		if got := lackText(config.Lack{What: "limits.cpu is not set: it rains", Jobs: c.jobs}); got != c.want {
			t.Errorf("lackText of %q = %q, want %q", c.jobs, got, c.want)
		}
	}
}
