package locking

import "sync"

// floorNames is how many names a half of the memory holds.
const floorNames = 2048

// floors remembers the highest fencing token seen of each lock. A Redis that lost its data
// and whose clock was set back besides would grant a smaller one; this process does not take
// it. Memory is bounded: of names not used for long only the highest token of them all is
// kept, which is too high for each and therefore safe.
type floors struct {
	mu    sync.Mutex
	young map[string]int64
	old   map[string]int64
	rest  int64 // the highest of the names no longer kept
}

// of returns a token that every new grant of name must exceed; 0 if there is none.
func (f *floors) of(name string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.kept(name)
}

// kept is of, with mu held.
func (f *floors) kept(name string) int64 {
	if fence, ok := f.young[name]; ok {
		return fence
	}
	if fence, ok := f.old[name]; ok {
		return fence
	}
	return f.rest
}

// saw notes a token of name. A name that is not kept may be one that was forgotten: it keeps
// the floor of those.
func (f *floors) saw(name string, fence int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fence = max(fence, f.kept(name))
	if _, known := f.young[name]; !known && len(f.young) >= floorNames {
		for _, token := range f.old {
			f.rest = max(f.rest, token)
		}
		f.old, f.young = f.young, nil
	}
	if f.young == nil {
		f.young = make(map[string]int64)
	}
	f.young[name] = fence
}
