// Package assert has the comparisons of tests. One that fails says the value that it got, the value
// that was wanted, and the context: what they are of, such as the name of a case.
package assert

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// That reports the message where a condition does not hold.
func That(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(format, args...)
	}
}

// Must is That, and ends the test.
func Must(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Fatalf(format, args...)
	}
}

// Equal reports two values that differ.
func Equal[T comparable](t testing.TB, got, want T, context ...any) {
	t.Helper()
	if got != want {
		t.Errorf("%sgot %s, want %s", about(context), quoted(got), quoted(want))
	}
}

// Same reports how a value differs from the wanted one, field by field. Options of cmp may stand
// in the context.
func Same[T any](t testing.TB, got, want T, context ...any) {
	t.Helper()
	var options []cmp.Option
	context = slices.DeleteFunc(context, func(v any) bool {
		o, ok := v.(cmp.Option)
		if ok {
			options = append(options, o)
		}
		return ok
	})
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("%s(-want +got)\n%s", about(context), diff)
	}
}

// NoError ends the test where there is an error.
func NoError(t testing.TB, err error, context ...any) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s%v", about(context), err)
	}
}

// Error reports where there is no error, or one that does not say the text.
func Error(t testing.TB, err error, text string, context ...any) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%sgot error %v, want one that says %q", about(context), err, text)
	}
}

func about(context []any) string {
	if len(context) == 0 {
		return ""
	}
	return strings.TrimSuffix(fmt.Sprintln(context...), "\n") + ": "
}

func quoted(v any) string {
	if s, ok := v.(string); ok {
		return strconv.Quote(s)
	}
	return fmt.Sprint(v)
}
