package assert

import (
	"errors"
	"fmt"
	"testing"
)

// A recorder is a test that writes down what is reported.
type recorder struct {
	testing.TB
	said string
}

func (*recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) { r.said = fmt.Sprintf(format, args...) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.said = "fatal: " + fmt.Sprintf(format, args...)
}

// TestWhatDoesNotHoldIsReported: what does not hold is reported. (What holds is not: every other test would fail.)
func TestWhatDoesNotHoldIsReported(t *testing.T) {
	full := errors.New("the disk is full")
	r := &recorder{}
	for want, check := range map[string]func(){
		"1":                                func() { That(r, false, "%d", 1) },
		"fatal: 1":                         func() { Must(r, false, "%d", 1) },
		`case 3: got "a", want "b"`:        func() { Equal(r, "a", "b", "case", 3) },
		"fatal: writing: the disk is full": func() { NoError(r, full, "writing") },
		`got error the disk is full, want one that says "empty"`: func() { Error(r, full, "empty") },
		`got error <nil>, want one that says ""`:                 func() { Error(r, nil, "") },
	} {
		r.said = ""
		if check(); r.said != want {
			t.Errorf("%q, want %q", r.said, want)
		}
	}
	r.said = ""
	if Same(r, []int{1}, []int{2}); r.said == "" {
		t.Error("a difference is not reported")
	}
}
