package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker in releases; elsewhere the build's own stamp says it.
var version string

// Version is what this binary calls itself.
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}

func (a *app) versionCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  rota version --json",
		Args:    takes(),
		RunE: func(*cobra.Command, []string) error {
			platform := runtime.GOOS + "/" + runtime.GOARCH
			if asJSON {
				return json.NewEncoder(a.stdout).Encode(struct {
					Version  string `json:"version"`
					Go       string `json:"go"`
					Platform string `json:"platform"`
				}{Version(), runtime.Version(), platform})
			}
			_, err := fmt.Fprintf(a.stdout, "rota %s (%s, %s)\n", Version(), runtime.Version(), platform)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one object: version, go, platform")
	return c
}
