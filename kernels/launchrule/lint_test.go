package launchrule_test

import (
	"strings"
	"testing"

	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
	"normbench/kernels/launchrule"
)

func init() {
	launchrule.Program = func(s *launchrule.Set) func(kernels.Problem, kernels.DeviceInfo) (kernels.Variant, error) {
		return families.With(s).Base
	}
}

func TestLint(t *testing.T) {
	j := launchrule.Judge{Registry: families.New(), Device: devicetest.H200()}
	stale := func(f *kernels.Family, source string) (string, bool) { return "0123456789ab", source != "0123456789ab" }
	fresh := func() *launchrule.Set {
		s, err := launchrule.Read("testdata/rules.json")
		if err != nil {
			t.Fatal(err)
		}
		s.Lists = s.Lists[:2]
		s.Sources["rms_bwd/two_pass"] = "0123456789ab"
		return s
	}
	config := func(label string) kernels.Config {
		c, err := kernels.ParseConfig(label)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	rule := func(s *launchrule.Set, i int) *launchrule.Rule { return &s.Lists[1].Rules[i] }
	for want, edit := range map[string]func(*launchrule.Set){
		"":                  func(s *launchrule.Set) { s.Lists[1].Rules = s.Lists[1].Rules[2:]; rule(s, 0).NMax = 32768 },
		"unknown family":    func(s *launchrule.Set) { rule(s, 0).Family = "rms_bwd/gone" },
		"has no knob \"u\"": func(s *launchrule.Set) { rule(s, 1).Config = config("u2") },
		"unreachable behind rule 1": func(s *launchrule.Set) {
			s.Lists[1].Rules[1] = s.Lists[1].Rules[0]
			rule(s, 1).NMax = 256
		},
		"unreachable outside the hull":         func(s *launchrule.Set) { rule(s, 2).NOver = 1 << 17 },
		"stale: the sources of rms_bwd/two_pa": func(s *launchrule.Set) { s.Sources["rms_bwd/two_pass"] = "ba9876543210" },
		"refuses br3": func(s *launchrule.Set) {
			rule(s, 1).Config = config("br3.bc8192.w16.v0.k0.p0.sp0.ro0.so0.pt0.rc32.rr128.rw32.er0.lb0.ch0")
		},
		"unreachable behind rule 2": func(s *launchrule.Set) { // it has the rows of the one before
			s.Lists[1].Rules[2] = s.Lists[1].Rules[1]
			rule(s, 1).Multiple, rule(s, 2).Multiple = 4, 8
		},
		"unreachable outside the hull (64 <= N <= 65536, 1 <= M/SM <= 7944, N*M/SM <= 4194304)": func(s *launchrule.Set) { rule(s, 2).RowsOver = 8000 * 132 },
		"unreachable outside the hull (64":                           func(s *launchrule.Set) { rule(s, 1).MMax, rule(s, 1).RowsOver = launchrule.Whole(2), 264 },
		"unreachable behind the rules of rmsnorm/bwd/2-byte, list 2": func(s *launchrule.Set) { s.Lists = append(s.Lists, s.Lists[1]) },
		"not for nvidia-h200":                                        func(s *launchrule.Set) { s.Device.ID = "nvidia-a100" },
		"does not serve rmsnorm bwd":                                 func(s *launchrule.Set) { rule(s, 2).Family = "ln_bwd/two_pass" },
	} {
		s := fresh()
		edit(s)
		got := ""
		for _, x := range s.Lint(j, stale) {
			got += x.Text + "\n"
		}
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("got  %s\nwant %q", got, want)
		}
	}
}
