package ledger

// keys makes the names of a namespace's keys. They all carry the hash tag {NS}, so that every
// script works on one slot of a Redis Cluster. Those of a shadow carry it too, and a tilde behind
// it, which no key of a fleet has.
type keys struct{ prefix string }

func newKeys(namespace, shadow string) keys {
	if shadow != "" {
		shadow = "~" + shadow
	}
	return keys{prefix: "{" + namespace + "}" + shadow + ":"}
}

func (k keys) lease(name string) string { return k.prefix + "lock:" + name }
func (k keys) fence(lock string) string { return k.prefix + "lock:" + lock + ":fence" }
func (k keys) record(job string) string { return k.prefix + "job:" + job }
func (k keys) runs(job string) string   { return k.record(job) + ":runs" }
func (k keys) fails(job string) string  { return k.record(job) + ":fails" }
func (k keys) skips(job string) string  { return k.record(job) + ":skips" }
func (k keys) run(id string) string     { return k.prefix + "run:" + id }
func (k keys) output(id string) string  { return k.prefix + "out:" + id }
func (k keys) hosts() string            { return k.prefix + "hosts" }
func (k keys) drain() string            { return k.prefix + "drain" }
func (k keys) paused() string           { return k.prefix + "paused" }
func (k keys) requests() string         { return k.prefix + "requests" }
func (k keys) events() string           { return k.prefix + "events" }

// taken is the bitmap of the jobs of one table that are decided at one instant.
func (k keys) taken(table, instant string) string {
	return k.prefix + "taken:" + table + ":" + instant
}
