package locking

import (
	"fmt"
	"strings"
)

// maxNameBytes bounds a lock's name.
const maxNameBytes = 512

// naming makes keys of names. On a Cluster a script may only touch keys of one slot, which
// is chosen by what stands in the first pair of braces, the hash tag (Redis documentation,
// "Cluster specification"). A plain prefix tags each name, so that locks spread over the
// slots; a prefix with a tag of its own puts all its locks into one.
type naming struct {
	prefix string
	tagged bool
}

// lockKeys are the keys of one lock.
type lockKeys struct{ lock, fence string }

// freed is the channel on which those who wait are told of the lock's release.
func (k lockKeys) freed() string { return k.lock + ":freed" }

// end is the key by which somebody asks the lock's holder to end.
func (k lockKeys) end() string { return k.lock + ":end" }

func newNaming(prefix string) (naming, error) {
	open, end := strings.IndexByte(prefix, '{'), strings.IndexByte(prefix, '}')
	switch {
	case open < 0 && end < 0:
		return naming{prefix: prefix}, nil
	case open >= 0 && end > open+1 && strings.Count(prefix, "{") == 1 && strings.Count(prefix, "}") == 1:
		return naming{prefix: prefix, tagged: true}, nil
	}
	return naming{}, invalid("Prefix: %q has braces that are not one tag, as in \"{app}:lock:\"", prefix)
}

// keys returns the keys of the lock. No name's lock is another's fence: with a plain prefix
// only a lock ends in a brace, with a tagged one only a fence has a colon after the prefix.
func (n naming) keys(name string) (lockKeys, error) {
	if err := n.check(name); err != nil {
		return lockKeys{}, err
	}
	lock := n.prefix + name
	if !n.tagged {
		lock = n.prefix + "{" + name + "}"
	}
	return lockKeys{lock: lock, fence: lock + ":fence"}, nil
}

func (n naming) check(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: empty", ErrInvalidName)
	case len(name) > maxNameBytes:
		return fmt.Errorf("%w: %q… has %d bytes, at most %d are allowed",
			ErrInvalidName, name[:32], len(name), maxNameBytes)
	case strings.ContainsAny(name, "{}"):
		return fmt.Errorf("%w: %q has a brace, which would change the key's hash tag", ErrInvalidName, name)
	case n.tagged && strings.Contains(name, ":"):
		return fmt.Errorf("%w: %q has a colon, which under the prefix %q belongs to Rota's own keys",
			ErrInvalidName, name, n.prefix)
	}
	return nil
}
