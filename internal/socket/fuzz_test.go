package socket

import (
	"bytes"
	"encoding/json"
	"testing"
)

// A request comes from whoever runs as a job. What is taken is one object of known fields, and means the same
// when it is written again.
func FuzzUnmarshal_Request(f *testing.F) {
	f.Add([]byte(`{"v":1,"op":"fence","key":"cursor","token":1795968430725800,"value":"MTcwMA=="}` + "\n"))
	f.Add([]byte(`{"v":1,"op":"fence","key":"\ud800","token":-1,"value":null}`))
	f.Add([]byte(`{"V":1} {}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var r, again request
		if unmarshal(line, &r) != nil {
			return
		}
		written, err := json.Marshal(r)
		if err != nil {
			t.Fatalf("unmarshal(%q) = %+v, which cannot be written: %v", line, r, err)
		}
		if err := unmarshal(written, &again); err != nil || r.V != again.V || r.Op != again.Op || r.Key != again.Key ||
			r.Token != again.Token || !bytes.Equal(r.Value, again.Value) || (r.Value == nil) != (again.Value == nil) {
			t.Errorf("unmarshal(%q) = %+v, written again it is %+v, %v", line, r, again, err)
		}
	})
}
