package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"normbench/kernels"
	"normbench/kernels/families"
)

// planted is the families with a change in one CUDA source. Their host stages are right.
func planted(t *testing.T, name, old, text string) *kernels.Registry {
	r := families.New()
	file := r.File
	r.File = func(n string) (string, error) {
		s, err := file(n)
		if n == name {
			if !strings.Contains(s, old) {
				t.Errorf("%s has no %q", name, old)
			}
			s = strings.ReplaceAll(s, old, text)
		}
		return s, err
	}
	return r
}

// A CUDA kernel that is wrong, or that the emulator cannot run, is not green on a cpu because its
// host stage is right.
func TestVerifyRunsCUDA(t *testing.T) {
	cxx := compiler(t)
	if cxx == "" {
		t.Skip("no C++ compiler")
	}
	t.Setenv("CXX", cxx)
	const variance = "s[r] * INV_COLS + eps"
	for _, test := range []struct {
		text  string // in place of the variance
		flags []string
		code  int
		want  string // among what is printed
	}{
		{variance, nil, 0, `(?m)^normbench: 1 check of host code, 3 of CUDA code in the emulator passed$`},
		{"1.01f * " + variance, nil, exitGate, `(?s)one_shot +host .* ok\n.*one_shot +emulated .* 1 FAILED, first .*: error: 3 of 4 checks failed\n`},
		{"1.01f * " + variance, []string{"--host-only"}, 0, `(?m)^normbench: no CUDA code was run, as --host-only asks$`},
		{"__vabsdiffu4(0, 0) + " + variance, nil, exitUnclear,
			`(?s)one_shot +emulated .* not run: fwd_one_shot.cu: .*__vabsdiffu4.*: 1 check of host code passed\n.*: error: not verified, as their CUDA code was not run: rms_fwd/one_shot; fwd_one_shot.cu: .*__vabsdiffu4`},
	} {
		var stdout, stderr bytes.Buffer
		args := append([]string{"normbench", "verify", "rms_fwd/one_shot", "--device", "cpu", "--shapes", "64x256", "--op", "rmsnorm", "--pass", "fwd", "--wide"}, test.flags...)
		code := run(args, strings.NewReader(""), &stdout, &stderr, planted(t, "fwd_one_shot.cu", variance, test.text))
		if all := stdout.String() + stderr.String(); code != test.code || !regexp.MustCompile(test.want).MatchString(all) {
			t.Errorf("%s %v: exit code %d, want %d and %s\n%s", test.text, test.flags, code, test.code, test.want, all)
		}
	}
}
