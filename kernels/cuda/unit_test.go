package cuda

import (
	"io/fs"
	"testing"

	"normbench/kernels"
)

// A unit has the headers that its source includes, however the line is written.
func TestUnitHeaders(t *testing.T) {
	files := map[string]string{
		"k.cu": "#  include \"a.cuh\"\n#\tinclude\t\"b.cuh\" // why\n # /* x */ include/**/\"c.cuh\" /* y */\n#include <d.cuh>\n// #include \"e.cuh\"\n" +
			"#include\\\n \"f.cuh\"\r\nint include = 1; \"g.cuh\"\n",
		"a.cuh": "#include\"h.cuh\"", "b.cuh": "", "c.cuh": "", "f.cuh": "", "h.cuh": "",
	}
	r := &kernels.Registry{File: func(name string) (string, error) {
		if text, ok := files[name]; ok {
			return text, nil
		}
		return "", fs.ErrNotExist
	}}
	u, err := NewUnit(r, &kernels.Launch{Source: "k.cu"}, "sm_90")
	if err != nil {
		t.Fatal(err)
	}
	for name := range files {
		if _, ok := u.Source.Headers[name]; ok == (name == "k.cu") {
			t.Errorf("%s is among the headers: %v", name, ok)
		}
	}
	if len(u.Source.Headers) != len(files)-1 {
		t.Errorf("%d headers", len(u.Source.Headers))
	}
}
