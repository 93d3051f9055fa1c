package rules

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"normbench/kernels"
	"normbench/sweep/record"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// example is a small set with a rule of every kind.
func example(t testing.TB) *Set {
	t.Helper()
	recipe := func(v string, row int64, grow, shrink []string) Recipe {
		x, err := kernels.ParseVariant(v)
		if err != nil {
			t.Fatal(err)
		}
		return Recipe{x.Family, x.Config, row, grow, shrink}
	}
	score := Score{Class: "rmsnorm/bwd/2-byte", Held: HeldShape, Chooser: ChooserRules, Shapes: 12, Regret: 1.02, Lo: 1.01, Hi: 1.03, P95: 1.05, Max: 1.06, Worst: "rmsnorm/bwd/4096x8192/bf16", Within2: 0.7, Within5: 0.9}
	return &Set{
		Schema: Schema, Kind: Kind, Tool: "v1.0.0", Measured: "v0.9.0", Date: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
		Device:   kernels.DeviceInfo{ID: "nvidia-h200", Kind: kernels.KindCUDA, Name: "NVIDIA H200", Arch: "sm_90", Units: 132, Driver: "13.0", Compiler: "nvrtc 13.0"},
		Protocol: record.Protocol{Name: "cold", Samples: 20, Discard: 1, Cold: true}, Noise: 0.03,
		Sources: map[string]string{"rms_bwd/reg_persist": "0123456789ab", "rms_bwd/two_pass": "ba9876543210"},
		HeldOut: []Score{score},
		Classes: []List{
			{Class: Class{kernels.RMSNorm, kernels.Fwd, false, 4}, Hull: Hull{64, 8192, 1, 1000, 1 << 20}, Rules: []Rule{}},
			{Class: Class{kernels.RMSNorm, kernels.Bwd, false, 2}, Hull: Hull{64, 65536, 1, 7944, 4 << 20}, Rules: []Rule{
				{Box{NMax: 512, MOver: 4, MMax: 80}, recipe("rms_bwd/reg_persist@br8.w16.v0.st2.k2.p0.ho1.ro0.so0.pt0.rc32.rr128.rw32.er0.lb0.ch0", 1024, []string{"warps"}, []string{"programs_per_sm"}), Evidence{4, 1.01, 1.1, "rmsnorm/bwd/4096x256/bf16", 1.02}},
				{Box{NOver: 4096, MMax: 2, RowAlign: 16}, recipe("rms_bwd/two_pass@br1.bc8192.w16.v0.k0.p0.sp0.ro0.so0.pt0.rc32.rr128.rw32.er0.lb0.ch0", 0, nil, nil), Evidence{1, 1, 1.3, "rmsnorm/bwd/1x8192/bf16", 1}},
				{Box{NOver: 4096, MMax: 2, RowUneven: 16}, recipe("rms_bwd/two_pass@br1.bc2048.w16.v0.k0.p0.sp0.ro0.so0.pt0.rc32.rr128.rw32.er0.lb0.ch0", 0, nil, nil), Evidence{1, 1, 2.3, "rmsnorm/bwd/29x17389/bf16", 1}},
			}},
		},
	}
}

// launches is a small set of what a ref launches: rows of every kind of range, some without.
func launches(t testing.TB) *Set {
	t.Helper()
	var ps []kernels.Problem
	for _, text := range []string{"rmsnorm/bwd/8192x4096/fp16", "layernorm/fwd/8192x5120/fp16+bias+residual", "layernorm/fwd/8192x4096/fp16+bias+residual"} {
		p, err := kernels.ParseProblem(text)
		if err != nil {
			t.Fatal(err)
		}
		ps = append(ps, p)
	}
	pick := func(p kernels.Problem) (kernels.Variant, bool) {
		text := "rms_bwd/few_rows@w8.cl1.dc16"
		switch {
		case p.Op == kernels.LayerNorm && (p.N == 5120 && p.M < 5 || p.M > 8000):
			return kernels.Variant{}, false
		case p.Op == kernels.LayerNorm && p.M%4 == 0:
			text = "ln_fwd/cta_reg@br4.w8"
		case p.Op == kernels.LayerNorm:
			text = "ln_fwd/cta_reg@br1.w8"
		case p.M >= 528:
			text = "rms_bwd/smem_pipe@br2.w8.st2.k1"
		case p.M == 1:
			text = "rms_bwd/few_rows@w4.cl1.dc16"
		}
		v, err := kernels.ParseVariant(text)
		if err != nil {
			t.Error(err)
		}
		return v, err == nil
	}
	d := kernels.DeviceInfo{ID: "nvidia-h200", Kind: kernels.KindCUDA, Name: "NVIDIA H200", Arch: "sm_90", Units: 132}
	s, err := Launches(Ref{Name: "preset:small", Pick: pick}, ps, d, "v1.0.0", nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Sources = map[string]string{"ln_fwd/cta_reg": "0123456789ab", "rms_bwd/few_rows": "456789abcdef", "rms_bwd/smem_pipe": "ba9876543210"}
	return s
}

// TestGolden: the examples in every format are what they were.
func TestGolden(t *testing.T) {
	golden(t, example(t), "rules")
	golden(t, launches(t), "launches")
	if _, err := example(t).Export("rust"); err == nil || !strings.Contains(err.Error(), `unknown export "rust"`) {
		t.Errorf("got %v", err)
	}
}

func golden(t *testing.T, s *Set, base string) {
	for format, ext := range map[string]string{"json": ".json", "yaml": ".yaml", "go": ".go.txt", "python": ".py", "cpp": ".hpp"} {
		name := base + ext
		got, err := s.Export(format)
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name)
		if *update {
			os.MkdirAll("testdata", 0o755)
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if diff := cmp.Diff(string(want), string(got)); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
		if format != "json" && format != "yaml" {
			continue
		}
		again, err := Parse(name, got)
		if diff := cmp.Diff(s, again, cmp.Comparer(func(a, b kernels.Config) bool { return a == b })); diff != "" || err != nil {
			t.Errorf("%s read back: %v\n%s", name, err, diff)
		}
	}
}

// The programs that run exported code: a problem per line of standard input, an
// answer per line of standard output.
const (
	goMain = `
func main() {
	for {
		var op, pass string
		var m, n, bytes, bias, sms int64
		if c, _ := fmt.Scan(&op, &pass, &m, &n, &bytes, &bias, &sms); c < 7 {
			out.Flush()
			return
		}
		l, ok := Pick(op, pass, m, n, bytes, bias == 1, sms)
		if !ok {
			fmt.Fprintln(out, "default")
			continue
		}
		fmt.Fprint(out, l.Rule, " ", l.Family)
		%s
		fmt.Fprintln(out)
	}
}

var out = bufio.NewWriter(os.Stdout)
`
	pythonMain = `
import sys
for line in sys.stdin:
    op, pass_, m, n, b, bias, sms = line.split()
    a = pick(op, pass_, int(m), int(n), int(b), bias == "1", int(sms))
    if a is None:
        print("default")
    else:
        print(a["rule"], a["family"], *("%s=%d" % (k, a.get(k, 0)) for k in KNOBS))
`
	cppMain = `
#include <iostream>
#include <string>
int main() {
  std::string op, pass_;
  std::int64_t m, n, b, bias, sms;
  while (std::cin >> op >> pass_ >> m >> n >> b >> bias >> sms) {
    const auto a = normbench::pick(op, pass_, m, n, b, bias == 1, sms);
    if (a.family == nullptr) {
      std::cout << "default\n";
      continue;
    }
    std::cout << a.rule << ' ' << a.family;
    %s
    std::cout << '\n';
  }
}
`
)

// TestExports runs the exported code on 10,000 random problems: it answers as
// Pick does.
func TestExports(t *testing.T) {
	for name, s := range map[string]*Set{"example": example(t), "h200": fittedBy(t, ruled).set, "launches": launches(t), "base": baseLaunches(t)} {
		t.Run(name, func(t *testing.T) { testExports(t, s) })
	}
}

func testExports(t *testing.T, s *Set) {
	var in, want bytes.Buffer
	knobs := s.knobs()
	fired := 0
	for i, p := range randomProblems(s, 10000) {
		sms := s.Device.Units
		if i%5 == 0 {
			sms = 1 + i%200
		}
		bias := 0
		if p.Bias {
			bias = 1
		}
		fmt.Fprintln(&in, p.Op, p.Pass, p.M, p.N, p.DType.Size(), bias, sms)
		a := s.PickOn(p, sms)
		if a.Match != MatchRule {
			fmt.Fprintln(&want, "default")
			continue
		}
		fired++
		fmt.Fprint(&want, a.Rule+1, " ", a.Variant.Family)
		for _, k := range knobs {
			fmt.Fprintf(&want, " %s=%d", k.Name, a.Variant.Config.Get(k))
		}
		fmt.Fprintln(&want)
	}
	for _, sides := range []string{"0 4096", "-4 4096", "128 0", "128 -4096", "4 2305843009213693953"} { // no rows, as of an empty batch
		for _, pass := range []string{"rmsnorm fwd ", "rmsnorm bwd ", "layernorm fwd ", "layernorm bwd "} {
			bias := map[byte]string{'r': " 2 0 ", 'l': " 2 1 "}[pass[0]]
			fmt.Fprintln(&in, pass+sides+bias, s.Device.Units)
			fmt.Fprintln(&want, "default")
		}
	}
	if fired < 300 && !raceEnabled {
		t.Errorf("rules fired %d times only", fired)
	}
	export := func(t *testing.T, format string) string {
		b, err := s.Export(format)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	check := func(t *testing.T, file, text string, commands ...[]string) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		var out []byte
		for _, args := range commands {
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Dir = dir
			cmd.Stdin = bytes.NewReader(in.Bytes())
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			var err error
			if out, err = cmd.Output(); err != nil {
				t.Fatalf("%v: %v\n%s", args, err, stderr.String())
			}
		}
		got, want, asked := strings.Split(string(out), "\n"), strings.Split(want.String(), "\n"), strings.Split(in.String(), "\n")
		if len(got) != len(want) {
			t.Fatalf("%d answers, want %d", len(got), len(want))
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%s: got %q, want %q", asked[i], got[i], want[i])
			}
		}
	}
	t.Run("go", func(t *testing.T) {
		var show strings.Builder
		for _, k := range knobs {
			fmt.Fprintf(&show, "fmt.Fprintf(out, \" %s=%%d\", l.%s)\n", k.Name, camel(k.Name))
		}
		code := strings.Replace(export(t, "go"), "package launch\n", "package main\n\nimport (\"bufio\"; \"fmt\"; \"os\")\n", 1)
		check(t, "main.go", code+fmt.Sprintf(goMain, show.String()), []string{"go", "run", "main.go"})
	})
	t.Run("python", func(t *testing.T) {
		python := found(t, "python3")
		names := make([]string, len(knobs))
		for i, k := range knobs {
			names[i] = fmt.Sprintf("%q", k.Name)
		}
		check(t, "main.py", export(t, "python")+"\nKNOBS = ["+strings.Join(names, ", ")+"]\n"+pythonMain, []string{python, "main.py"})
	})
	t.Run("cpp", func(t *testing.T) {
		compiler := found(t, "g++", "c++")
		var show strings.Builder
		for _, k := range knobs {
			fmt.Fprintf(&show, "std::cout << \" %s=\" << a.%s;\n", k.Name, k.Name)
		}
		code := strings.Replace(export(t, "cpp"), "#pragma once", "", 1)
		check(t, "main.cc", code+fmt.Sprintf(cppMain, show.String()), []string{compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", "-o", "main", "main.cc"}, []string{"./main"})
	})
}

// found is the first of some programs that there is; without one the test is
// skipped, and says so.
func found(t *testing.T, names ...string) string {
	for _, n := range names {
		if p, err := exec.LookPath(n); err == nil {
			return p
		}
	}
	t.Skipf("NOT TESTED: no %s here to run the exported code", strings.Join(names, " or "))
	return ""
}
