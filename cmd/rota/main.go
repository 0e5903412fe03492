// Command rota is cron for a fleet: see "rota -h".
package main

import (
	"os"

	"rota/internal/cli"
)

func main() { os.Exit(cli.Main()) }
