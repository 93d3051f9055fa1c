package assert

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
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

// TestReports: what does not hold is reported, and nothing else.
func TestReports(t *testing.T) {
	full := errors.New("the disk is full")
	r := &recorder{}
	for _, c := range []struct {
		check func()
		want  string
	}{
		{func() { That(r, true, "%d", 1) }, ""},
		{func() { That(r, false, "%d", 1) }, "1"},
		{func() { Must(r, true, "%d", 1) }, ""},
		{func() { Must(r, false, "%d", 1) }, "fatal: 1"},
		{func() { Equal(r, 1, 1) }, ""},
		{func() { Equal(r, "a", "b", "case", 3) }, `case 3: got "a", want "b"`},
		{func() { Same(r, []int{1}, []int{1}) }, ""},
		{func() { Same(r, []int{}, nil, cmpopts.EquateEmpty()) }, ""},
		{func() { NoError(r, nil) }, ""},
		{func() { NoError(r, full, "writing") }, "fatal: writing: the disk is full"},
		{func() { Error(r, full, "full") }, ""},
		{func() { Error(r, full, "empty") },
			`got error the disk is full, want one that says "empty"`},
		{func() { Error(r, nil, "") }, `got error <nil>, want one that says ""`},
	} {
		r.said = ""
		c.check()
		if r.said != c.want {
			t.Errorf("%q, want %q", r.said, c.want)
		}
	}
	if Same(r, []int{1}, []int{2}); r.said == "" {
		t.Error("a difference is not reported")
	}
}
