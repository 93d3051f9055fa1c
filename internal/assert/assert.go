// Package assert has the comparisons of tests. One that fails says the value that it got, the value
// that was wanted, and the context: what they are of, such as the name of a case. What is long is
// compared with a file, which -update writes.
package assert

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"normbench/internal/hint"
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

// File reads a file.
func File(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	NoError(t, err)
	return text
}

// Write writes a file, in a new folder if need be.
func Write(t testing.TB, name, text string) {
	t.Helper()
	NoError(t, os.MkdirAll(filepath.Dir(name), 0o777))
	NoError(t, os.WriteFile(name, []byte(text), 0o666))
}

// Needs ends a test that lacks what it needs: it is skipped, or fails where $NORMBENCH_REQUIRE_WHAT
// is set, so that a CI job that installs it cannot skip in silence.
func Needs(t testing.TB, what string, err error) {
	t.Helper()
	Must(t, err == nil || os.Getenv("NORMBENCH_REQUIRE_"+what) == "", "%v", err)
	if err != nil {
		t.Skip(err)
	}
}

// Error reports where there is no error, or one that does not say the text.
func Error(t testing.TB, err error, text string, context ...any) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%sgot error %v, want one that says %q", about(context), err, text)
	}
}

// Refusal writes an error and its hint, a line each, for Cases; "ok" where there is none.
func Refusal(t testing.TB, err error) string {
	t.Helper()
	if err == nil {
		return "ok"
	}
	text := err.Error() + "\nhint: " + hint.Of(err)
	if hint.Of(err) == "" || strings.Count(text, "\n") > 1 {
		t.Errorf("no error of one line with a hint of one: %s", text)
	}
	return text
}

// All says whether tests run in full instead of a part: `make test-all`.
var All = os.Getenv("NORMBENCH_TEST_ALL") != ""

// Sampled says whether this run takes the i-th of many: the first of each so many, and all where All.
func Sampled(i, of int) bool { return All || i%of == 0 }

// Value reads a value as a case of a file has it: in JSON.
func Value[T any](t testing.TB, text string) (v T) {
	t.Helper()
	NoError(t, json.Unmarshal([]byte(text), &v), text)
	return v
}

// Numbers reads the numbers of a text, with blanks between; NaN and infinities too.
func Numbers(t testing.TB, text string) (list []float64) {
	t.Helper()
	for _, word := range strings.Fields(text) {
		x, err := strconv.ParseFloat(word, 64)
		NoError(t, err)
		list = append(list, x)
	}
	return list
}

// Update is the flag -update: files that tests compare with are written anew.
var Update = flag.Bool("update", false, "write anew what tests compare with; read the diff")

// Golden compares a text with a file, which -update writes.
func Golden(t testing.TB, file, got string) {
	t.Helper()
	if *Update {
		NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	NoError(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update writes it):\n%s", file, diff)
	}
}

// Cases compares the outputs of a function with a file of its inputs and outputs, of which -update
// writes the outputs. A case is a paragraph: the input, a line of four dashes, the output. One that
// begins with # is a comment. A quoted input stands for what Go takes it for.
func Cases(t testing.TB, file string, output func(input string) string) {
	t.Helper()
	cases(t, file, "\n\n", "\n----\n", output)
}

// Lines is Cases for short ones: a case is a line, with => between the input and the output.
func Lines(t testing.TB, file string, output func(input string) string) {
	t.Helper()
	cases(t, file, "\n", " => ", func(input string) string {
		return strings.ReplaceAll(output(input), "\n", "; ")
	})
}

// Edited applies a diff to a text: lines with + replace those with - above them; without any + these are
// deleted.
func Edited(t testing.TB, text string, diff []string) string {
	t.Helper()
	for len(diff) > 0 {
		var old, now []string
		for ; len(diff) > 0 && strings.HasPrefix(diff[0], "-"); diff = diff[1:] {
			old = append(old, diff[0][1:])
		}
		for ; len(diff) > 0 && strings.HasPrefix(diff[0], "+"); diff = diff[1:] {
			now = append(now, diff[0][1:])
		}
		from := strings.Join(old, "\n")
		if now == nil {
			from += "\n"
		}
		Must(t, old != nil && strings.Contains(text, from), "no %q to edit", old)
		text = strings.Replace(text, from, strings.Join(now, "\n"), 1)
	}
	return text
}

func cases(t testing.TB, file, end, arrow string, output func(input string) string) {
	t.Helper()
	text, err := os.ReadFile(file)
	NoError(t, err)
	got := strings.Split(strings.TrimSpace(string(text)), end)
	for i, c := range got {
		input, _, _ := strings.Cut(c, strings.TrimRight(arrow, " \n"))
		if c == "" || strings.HasPrefix(c, "#") {
			continue
		}
		plain, err := strconv.Unquote(input)
		if err != nil {
			plain = input
		}
		got[i] = strings.TrimRight(input+arrow+output(plain), " \n")
	}
	Golden(t, file, strings.Join(got, end)+"\n")
}

// Refused is Error, for errors of one line that have a hint.
func Refused(t testing.TB, err error, text string, context ...any) {
	t.Helper()
	Error(t, err, text, context...)
	Refusal(t, err)
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
