package cli

import (
	"testing"

	"rota/scheduler/ledger"
)

func TestHolderOf_ReadsOldEntriesToo(t *testing.T) {
	for _, tc := range []struct {
		name   string
		e      ledger.Entry
		holder string
		held   bool
	}{
		{"the holder is recorded", ledger.Entry{Holder: "web-1", Reason: "held by web-1"}, "web-1", true},
		{"whatever the reason says", ledger.Entry{Holder: "web-1", Reason: "the lock is taken"}, "web-1", true},
		{"an entry of before", ledger.Entry{Reason: "held by web-1"}, "web-1", true},
		{"a holder without a name", ledger.Entry{Reason: "held by "}, "", true},
		{"a pause", ledger.Entry{Reason: "paused by ada: the lock is held by web-1"}, "", false},
		{"a disabled job", ledger.Entry{Reason: "disabled"}, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			holder, held := holderOf(&tc.e)
			if held != tc.held || held && holder != tc.holder {
				t.Errorf("holderOf(%+v) = %q, %t, want %q, %t", tc.e, holder, held, tc.holder, tc.held)
			}
		})
	}
}
