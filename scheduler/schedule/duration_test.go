package schedule

import (
	"errors"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]struct {
		d   time.Duration
		err error
	}{
		"90s":                   {90 * time.Second, nil},
		"1d12h":                 {36 * time.Hour, nil},
		"1.5d":                  {36 * time.Hour, nil},
		"1h30m5s7ms8us9µs1ns":   {time.Hour + 30*time.Minute + 5*time.Second + 7*time.Millisecond + 17*time.Microsecond + 1, nil},
		"0s":                    {0, nil},
		"106751d":               {106751 * 24 * time.Hour, nil},
		"":                      {0, ErrNoDuration},
		"d":                     {0, ErrNoDuration},
		".s":                    {0, ErrNoDuration},
		"1.2.3s":                {0, ErrNoDuration},
		"5 m":                   {0, ErrNoDuration},
		"5M":                    {0, ErrNoDuration},
		"1h s":                  {0, ErrNoDuration},
		"5":                     {0, ErrNoUnit},
		"1h5":                   {0, ErrNoUnit},
		"-5s":                   {0, ErrSign},
		"+5s":                   {0, ErrSign},
		"106752d":               {0, ErrTooLong},
		"106751d24h":            {0, ErrTooLong},
		"2562048h":              {0, ErrTooLong},
		"99999999999999999999s": {0, ErrTooLong},
	} {
		if d, err := ParseDuration(text); d != want.d || !errors.Is(err, want.err) {
			t.Errorf("ParseDuration(%q) = %v, %v, want %v, %v", text, d, err, want.d, want.err)
		}
	}
}
