package scheduler

import (
	"slices"
	"testing"
	"time"
)

func TestTending_WhatHappensDuringALookIsNotLost(t *testing.T) {
	now := time.Now()
	due := func(t *testing.T, g *tending, at time.Time, want ...string) {
		t.Helper()
		got := g.due(at)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("due after %s: %q, want %q", at.Sub(now), got, want)
		}
	}
	none := func(int) time.Duration { return 0 }
	all := func(string) bool { return true }
	t.Run("the sooner of two instants counts, and the better rank", func(t *testing.T) {
		g := newTending()
		g.add("a", 3, now.Add(2*time.Second))
		g.add("a", 1, now.Add(time.Second))
		g.add("a", 5, now.Add(3*time.Second))
		due(t, g, now)
		due(t, g, now.Add(time.Second), "a")
		if r := g.rankOf("a"); r != 1 {
			t.Errorf("rankOf = %d, want 1", r)
		}
	})
	t.Run("a job is looked at once at a time", func(t *testing.T) {
		g := newTending()
		g.add("a", 0, now)
		due(t, g, now, "a")
		due(t, g, now.Add(time.Hour))
		g.again("a", now.Add(time.Minute))
		due(t, g, now.Add(time.Second))
		due(t, g, now.Add(time.Minute), "a")
	})
	t.Run("dropped, unless something happened meanwhile", func(t *testing.T) {
		g := newTending()
		g.add("a", 0, now)
		due(t, g, now, "a")
		g.drop("a")
		due(t, g, now.Add(time.Hour))
		g.add("a", 0, now)
		due(t, g, now, "a")
		g.add("a", 0, now.Add(time.Second))
		g.drop("a")
		due(t, g, now.Add(time.Second), "a")
	})
	t.Run("a hint during a look brings the next one forward", func(t *testing.T) {
		g := newTending()
		g.add("a", 0, now)
		g.add("b", 0, now.Add(time.Minute))
		due(t, g, now, "a")
		g.poke(now, none, all)
		g.again("a", now.Add(time.Hour))
		due(t, g, now, "a", "b")
		g.poke(now, none, func(job string) bool { return job == "c" })
		g.again("a", now.Add(time.Hour))
		due(t, g, now)
	})
	t.Run("a hint makes hosts of later ranks wait", func(t *testing.T) {
		g := newTending()
		g.add("a", 2, now.Add(time.Hour))
		g.poke(now, func(rank int) time.Duration { return time.Duration(rank) * time.Second }, all)
		due(t, g, now.Add(time.Second))
		due(t, g, now.Add(2*time.Second), "a")
	})
	t.Run("a fleet that changed changes the ranks, but not of what this host may be alone to know", func(t *testing.T) {
		g := newTending()
		g.add("a", 0, now)
		g.addOwn("b", 1, now)
		g.add("b", 3, now)
		g.rerank(func(job string) int { return map[string]int{"a": 4, "b": 5}[job] })
		if a, b := g.rankOf("a"), g.rankOf("b"); a != 4 || b != 1 {
			t.Errorf("rankOf a, b = %d, %d, want 4, 1", a, b)
		}
		g.rerank(func(string) int { return 0 })
		if a, b := g.rankOf("a"), g.rankOf("b"); a != 0 || b != 0 {
			t.Errorf("rankOf a, b = %d, %d, want 0, 0", a, b)
		}
	})
	t.Run("it is asked when nobody need look", func(t *testing.T) {
		g := newTending()
		if d := g.wait(now); d != rearm {
			t.Errorf("wait = %s for an empty list, want %s", d, rearm)
		}
		g.add("a", 0, now.Add(300*time.Millisecond))
		if d := g.wait(now); d != 300*time.Millisecond {
			t.Errorf("wait = %s, want 300ms", d)
		}
		g.due(now.Add(time.Second))
		if d := g.wait(now.Add(time.Second)); d != rearm {
			t.Errorf("wait = %s while the look is under way, want %s", d, rearm)
		}
	})
	t.Run("a hint that comes before the answer that makes one wait for it", func(t *testing.T) {
		g := newTending()
		if g.freedSince("db", now) {
			t.Error("freedSince says that a lock was free of which nothing was said")
		}
		g.hinted("db", now.Add(time.Second))
		if !g.freedSince("db", now) || !g.freedSince("db", now.Add(time.Second)) || g.freedSince("db", now.Add(2*time.Second)) || g.freedSince("other", now) {
			t.Error("freedSince does not tell before and after the hint, or locks, apart")
		}
		g.hinted("other", now.Add(2*time.Minute))
		if g.freedSince("db", now) {
			t.Error("a hint of two minutes ago is still remembered")
		}
	})
	t.Run("who gave a tick back leaves the next one to the others for a second", func(t *testing.T) {
		g := newTending()
		if d := g.afterOthers("a", now); d != 0 {
			t.Errorf("afterOthers = %s, want no time", d)
		}
		g.givesBack("a", now)
		if d, other := g.afterOthers("a", now.Add(20*time.Second)), g.afterOthers("b", now); d != time.Second || other != 0 {
			t.Errorf("afterOthers = %s, and %s of another job; want a second, and none", d, other)
		}
		if d := g.afterOthers("a", now.Add(2*time.Minute)); d != 0 {
			t.Errorf("afterOthers = %s two minutes later, want no time", d)
		}
	})
	t.Run("what is found is remembered until it is something else", func(t *testing.T) {
		g := newTending()
		g.add("a", 0, now)
		if at := g.found("a", "late", now); !at.Equal(now) {
			t.Errorf("found = now + %s, want now", at.Sub(now))
		}
		if at := g.found("a", "late", now.Add(time.Second)); !at.Equal(now) {
			t.Errorf("found = now + %s the second time, want when it was first", at.Sub(now))
		}
		if at := g.found("a", "crash", now.Add(time.Second)); !at.Equal(now.Add(time.Second)) {
			t.Errorf("found = now + %s of something else, want when that was", at.Sub(now))
		}
	})
}

func TestPatience_FewPollAndNobodyIsForgotten(t *testing.T) {
	for _, c := range []struct {
		rank       int
		left, want time.Duration
	}{
		{0, 0, time.Second}, // who holds the lock is not known: max_parallel runs go on
		{0, 5 * time.Millisecond, firstBackoff},
		{0, 300 * time.Millisecond, 300 * time.Millisecond},
		{0, 30 * time.Second, time.Second},
		{1, 30 * time.Second, 30 * time.Second},
		{3, 0, time.Second},
		{4, 0, 10 * time.Second},
		{6, 30 * time.Second, 30 * time.Second},
	} {
		if got := patience(c.rank, c.left); got != c.want {
			t.Errorf("patience(%d, %s) = %s, want %s", c.rank, c.left, got, c.want)
		}
	}
}

func TestWordsOf_PutsInstantsIntoWords(t *testing.T) {
	for text, want := range map[string]string{
		"replaced by tick 946685040000": "replaced by tick 2000-01-01T00:04:00Z",
		"replaced by tick soon":         "replaced by tick soon",
		"somebody unlocked it":          "somebody unlocked it",
	} {
		if got := wordsOf(text); got != want {
			t.Errorf("wordsOf(%q) = %q, want %q", text, got, want)
		}
	}
}
