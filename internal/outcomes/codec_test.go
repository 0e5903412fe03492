package outcomes

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"rota/locking"
	"rota/scheduler/ledger"
)

// sample is an outcome with a value in each field that a file has.
func sample() *outcome {
	at := time.Date(2026, 11, 29, 2, 0, 0, 0, time.UTC)
	return &outcome{
		namespace: "rota", kept: at.Add(90 * time.Second),
		grant: ledger.Grant{
			Claim: ledger.Claim{
				Job: "nightly-report", Run: "01KB6XFYG8R3M0Q2V5T7W9XZAB", Tick: at, Kind: ledger.Manual, Host: "web-1",
				Lock: "reports", Lease: "reports:1795968430", Token: locking.Token(strings.Repeat("0a", 16)), Definition: "9f3c",
				TTL: 30 * time.Second, Expire: 360 * time.Hour, Request: "1795968430725-0", Who: "root@web-2",
			},
			Fence: 1795968430725800, Found: "rerun", Won: at.Add(4 * time.Millisecond),
		},
		ending: ledger.Ending{
			Outcome: "failed", Reason: "exit code 3", ExitCode: new(3), Started: at.Add(7 * time.Millisecond),
			Ended: at.Add(1207123456 * time.Nanosecond), Attempt: 2, Alive: true, CPU: 812345678, PeakMemoryBytes: 1 << 29, Output: []byte("a\x00b\xff\x1b[31m\n<3>forged\r\n"),
		},
	}
}

func TestCodec_KeepsEveryField(t *testing.T) {
	bare := sample()
	bare.grant.Claim.Lease, bare.grant.Claim.Request, bare.grant.Claim.Who, bare.grant.Found = "", "", "", ""
	bare.grant.Claim.Kind = ledger.Scheduled
	bare.ending = ledger.Ending{Outcome: "lost", Ended: bare.ending.Ended}
	for name, o := range map[string]*outcome{"all there is": sample(), "what every outcome has": bare} {
		data, err := encode(o)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decode(data)
		if err != nil || !reflect.DeepEqual(got, o) {
			t.Errorf("%s: decode(encode(o)) = %+v, %v\nwant %+v", name, got, err, o)
		}
		if bytes.Count(data, []byte{'\n'}) != 1 || !bytes.HasSuffix(data, []byte{'\n'}) {
			t.Errorf("%s: encode(o) = %q, want one line", name, data)
		}
	}
	// What a claim has besides, a finish does not look at: whoever adds a field must look whether that
	// is still so.
	if n := reflect.TypeFor[ledger.Claim]().NumField(); n != 31 {
		t.Errorf("a Claim has %d fields, 31 when it was decided which of them a file needs", n)
	}
	if n := reflect.TypeFor[ledger.Ending]().NumField(); n != 10 {
		t.Errorf("an Ending has %d fields, 10 of which a file has", n)
	}
}

// A file that a daemon of this version wrote is read by every later one. The text is what it is.
func TestCodec_FormOfVersion1(t *testing.T) {
	const want = `{"v":1,"kept":"2026-11-29T02:01:30Z","namespace":"rota","job":"nightly-report",` +
		`"run":"01KB6XFYG8R3M0Q2V5T7W9XZAB","tick":"2026-11-29T02:00:00Z","kind":"manual","host":"web-1","lock":"reports",` +
		`"lease":"reports:1795968430","ownership_token":"0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a","fencing_token":1795968430725800,` +
		`"found":"rerun","won":"2026-11-29T02:00:00.004Z","definition":"9f3c","ttl_ms":30000,"expire_ms":1296000000,` +
		`"request":"1795968430725-0","who":"root@web-2","outcome":"failed","reason":"exit code 3","exit_code":3,` +
		`"started":"2026-11-29T02:00:00.007Z","ended":"2026-11-29T02:00:01.207123456Z","attempt":2,"alive":true,"cpu_ns":812345678,"peak_memory_bytes":536870912,` +
		`"output":"YQBi/xtbMzFtCjwzPmZvcmdlZA0K"}` + "\n"
	got, err := encode(sample())
	if string(got) != want || err != nil {
		t.Errorf("encode(sample) =\n%s%v\nwant\n%s", got, err, want)
	}
	more := strings.Replace(want, `{"v":1,`, `{"v":1,"later":{"x":[1]},`, 1)
	if o, err := decode([]byte(more)); err != nil || !reflect.DeepEqual(o, sample()) {
		t.Errorf("decode with a field that is not known = %+v, %v, want the outcome", o, err)
	}
}

func TestDecode_Refuses(t *testing.T) {
	whole, err := encode(sample())
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) - 1 {
		if _, err := decode(whole[:n]); err == nil {
			t.Fatalf("decode of the first %d of %d bytes = nil, want an error", n, len(whole))
		}
	}
	with := func(key string, value any) []byte {
		var m map[string]any
		if err := json.Unmarshal(whole, &m); err != nil {
			t.Fatal(err)
		}
		if m[key] = value; value == nil {
			delete(m, key)
		}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, tc := range []struct {
		name, want string
		data       []byte
	}{
		{"zeros after a crash", "invalid character", append(bytes.Clone(whole), 0, 0, 0)},
		{"only zeros", "invalid character", make([]byte, 4096)},
		{"two outcomes", "invalid character", append(bytes.Clone(whole), whole...)},
		{"another thing", "cannot unmarshal", []byte(`[1]`)},
		{"no version", "version 0", with("v", nil)},
		{"a negative version", "version -1", with("v", -1)},
		{"a newer version", "newer version of rota: version 2", with("v", 2)},
		{"a newer version of another shape", "newer version", []byte(`{"v":9,"job":7}`)},
		{"no job", "required", with("job", nil)},
		{"no lock", "required", with("lock", "")},
		{"no run", "required", with("run", nil)},
		{"no host", "required", with("host", nil)},
		{"no token", "Token has 0 digits", with("ownership_token", nil)},
		{"no ttl", "TTL is 0s", with("ttl_ms", nil)},
		{"a ttl that does not fit", "TTL is 0s", with("ttl_ms", int64(1)<<62)},
		{"an expiry below the ttl", "Expire is 1ms", with("expire_ms", 1)},
		{"a kind that is none", `Kind is "rerun"`, with("kind", "rerun")},
		{"a fencing token of 0", "fencing token 0", with("fencing_token", nil)},
		{"a fencing token beyond all", "fencing token 9007199254740992", with("fencing_token", int64(1)<<53)},
		{"an outcome that is none", `outcome "running"`, with("outcome", "running")},
		{"no outcome", `outcome ""`, with("outcome", nil)},
		{"no tick", "missing", with("tick", nil)},
		{"no end", "missing", with("ended", nil)},
		{"an end before all time", "1970 to 9999", with("ended", "1601-01-01T00:00:00Z")},
		{"an end after all time", "1970 to 9999", with("ended", "9999-12-31T23:59:59-01:00")},
		{"a negative attempt", "attempt -1", with("attempt", -1)},
		{"CPU time below zero", "-1ns of CPU time", with("cpu_ns", -1)},
		{"memory below zero", "-1 bytes", with("peak_memory_bytes", -1)},
		{"an output that is no base64", "illegal base64", with("output", "a")},
	} {
		if o, err := decode(tc.data); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: decode = %+v, %v, want an error with %q", tc.name, o, err, tc.want)
		}
	}
}

// Nobody's file ends the daemon, and what is accepted says the same when it is written again, and can
// be delivered.
func FuzzDecode(f *testing.F) {
	whole, err := encode(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte(`{"v":2}`))
	f.Add([]byte(`{"v":1,"Job":"a","job":"b","tick":"9999-12-31T23:59:59-23:59"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := decode(data)
		if err != nil {
			return
		}
		again, err := encode(o)
		if err != nil {
			t.Fatalf("encode(%+v): %v", o, err)
		}
		got, err := decode(again)
		if err != nil || !reflect.DeepEqual(got, o) {
			t.Fatalf("decode(encode(o)) = %+v, %v\nwant %+v", got, err, o)
		}
		if err := o.grant.Check(); err != nil {
			t.Fatalf("a grant that no ledger would take: %v", err)
		}
	})
}
