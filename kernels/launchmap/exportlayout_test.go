package launchmap

import (
	"strings"
	"testing"

	"normbench/internal/assert"
)

// Names of users' knobs are names in Python, C++ and Go, each of its own.
func TestKnobsHaveNamesOfTheirOwnInCode(t *testing.T) {
	names, goNames := namesIn{}, namesIn{}
	var got []string
	for _, name := range []string{"block_rows", "family", "class", "a_b", "a__b", "register", "type"} {
		field := names.unique(name)
		got = append(got, field, goNames.unique(camel(field)))
	}
	assert.Equal(t, strings.Join(got, " "),
		"block_rows BlockRows family_ Family_ class_ Class_ a_b AB a__b AB_ register_ Register_ type_ Type_")
}

// A call is broken as ruff breaks it.
func TestPythonCallIsBrokenAsRuffBreaksIt(t *testing.T) {
	long := strings.Repeat("x", 36)
	assert.Equal(t, pythonCall(4, "f", []string{"a", "b=1"}), "    f(a, b=1)")
	assert.Equal(t, pythonCall(4, "return f", []string{long, long, "c"}),
		"    return f(\n        "+long+", "+long+", c\n    )")
	assert.Equal(t, pythonCall(0, "f", []string{long, long, long}), "f(\n    "+long+",\n    "+long+",\n    "+long+",\n)")
}
