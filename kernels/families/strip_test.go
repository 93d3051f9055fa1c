package families

import "testing"

func TestStripComments(t *testing.T) {
	for in, want := range map[string]string{
		"a // b\nc":                      "a\nc",
		"a /* b\n c */ d":                "a d",
		"// all":                         "",
		"a // b \\\n still\nc":           "a\nc",
		"x = \"// no\"; // yes":          `x = "// no";`,
		"x = \"\\\"//\"; // yes":         `x = "\"//";`,
		"c = '\"'; // yes":               `c = '"';`,
		"n = 1'000'000; // yes '":        "n = 1'000'000;",
		"r = R\"x( // no )\" )x\"; // y": `r = R"x( // no )" )x";`,
		"#define A 1 // one\n\n\nint b;": "#define A 1\nint b;",
		"a\n\n  b":                       "a\nb",
		"open /* never closed":           "open",
	} {
		if got := stripComments(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
