package launchrule

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"normbench/kernels"
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
		return Recipe{Family: x.Family, Config: x.Config, RowBytes: row, Grow: grow, Shrink: shrink}
	}
	config := func(label string) kernels.Config {
		c, err := kernels.ParseConfig(label)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	exact := func(op kernels.Op, pass kernels.Pass, with Options, bytes int64) Class {
		return Class{op, pass, bytes, with, allOptions &^ launchAlike &^ with}
	}
	score := Score{Class: "rmsnorm/bwd/2-byte", Held: HeldShape, Chooser: ChooserRules, Shapes: 12, Regret: 1.02, Lo: 1.01, Hi: 1.03, P95: 1.05, Max: 1.06, Worst: "rmsnorm/bwd/4096x8192/bf16", Within2: 0.7, Within5: 0.9}
	return &Set{
		Schema: Schema, Kind: Kind, Tool: "v1.0.0", Measured: "v0.9.0", Date: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
		Device:   kernels.DeviceInfo{ID: "nvidia-h200", Kind: kernels.KindCUDA, Name: "NVIDIA H200", Arch: "sm_90", SMs: 132, Driver: "13.0", Compiler: "nvrtc 13.0", CacheBytes: 60 << 20, Clusters: [4]int{66, 30, 15, 7}},
		Protocol: json.RawMessage(`{"name":"cold"}`), Noise: 0.03,
		Sources: map[string]string{"rms_bwd/reg_persist": "0123456789ab", "rms_bwd/two_pass": "ba9876543210"},
		HeldOut: []Score{score},
		Lists: []List{
			{Class: exact(kernels.RMSNorm, kernels.Fwd, 0, 4), Hull: Hull{64, 8192, 1, 1000, 1 << 20}, Rules: []Rule{}},
			{Class: exact(kernels.RMSNorm, kernels.Bwd, 0, 2), Hull: Hull{64, 65536, 1, 7944, 4 << 20}, Rules: []Rule{
				{Box: Box{NMax: 512, MOver: Whole(4), MMax: Whole(80)}, Recipe: recipe("rms_bwd/reg_persist@br8.w16.v0.st2.k2.p0.ho1.ro0.so0.pt0.rc32.rr128.rw32.er0.lb0.ch0", 1024, []string{"warps"}, []string{"ctas_per_sm"}),
					Evidence: Evidence{Problems: 4, Records: 90, Regret: 1.01, DefaultRegret: 1.1, Worst: "rmsnorm/bwd/4096x256/bf16", WorstRegret: 1.02, HeldOutRegret: 1.02, OverBase: 1.2, OverNext: 1.1, Commit: "0123456"}},
				{Box: Box{NOver: 4096, MMax: Whole(2), RowAlign: 16}, Recipe: recipe("rms_bwd/two_pass@br1.bc8192.w16.v0.k0.p0.sp0.ro0.so0.pt0.rc32.rr128.rw32.er0.lb0.ch0", 0, nil, nil)},
				{Box: Box{NOver: 4096, MMax: Whole(2), RowUneven: 16}, Recipe: recipe("rms_bwd/two_pass@br1.bc2048.w16.v0.k0.p0.sp0.ro0.so0.pt0.rc32.rr128.rw32.er0.lb0.ch0", 0, nil, nil)},
			}},
			{Class: Class{Op: kernels.LayerNorm, Pass: kernels.Fwd, Without: 8}, Name: "small", Family: "ln_fwd/one_shot", Origin: "zones", Rest: config("br1.v0.u1.cl1.lb0.ch0"), Rules: []Rule{
				{Box: Box{XOver: Ratio{1, 6}}, Then: Next},
				{Box: Box{Columns: Other, RowOver: 4096, RowMax: 9000}, Then: Base},
				{Box: Box{MOver: Ratio{13, 5}, MBelow: Ratio{1939, 250}, Multiple: 4, Odd: 16, ElemsMax: 1 << 20}, Recipe: Recipe{Config: config("w4")}},
				{Box: Box{DType: "fp16", Cluster: 2, WaveLeast: 2, WaveMax: 9, RowAlign: 4}, Recipe: Recipe{Config: config("w8.u2.br2")}},
				{Box: Box{Columns: Pow2, MLeast: Ratio{1, 2}, MMax: Ratio{7, 8}, RowUneven: 16}, Recipe: Recipe{Config: config("w2")}},
				{Box: Box{RowMax: 2048}, If: "half_busy", Recipe: Recipe{Config: config("w1")}},
			}},
			{Class: Class{Op: kernels.LayerNorm, Pass: kernels.Fwd}, Own: true, Family: "ln_fwd/cta_reg", Origin: "zones", Rules: []Rule{{Recipe: Recipe{Config: config("w1")}}}},
			{Class: Class{Op: kernels.LayerNorm, Pass: kernels.Fwd, Bytes: 2, With: 1}, Origin: "zones", Rules: []Rule{{Box: Box{RowsMax: 4096}, Recipe: Recipe{Family: "ln_fwd/cta_reg"}}}},
		},
	}
}

// TestGolden: the examples in every format are what they were.
func TestGolden(t *testing.T) {
	golden(t, example(t), "rules")
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

// The CTAs that run exported code: a problem per line of standard input, an
// answer per line of standard output.
const (
	goMain = `
func main() {
	for {
		var op, pass, dtype string
		var m, n, options, sms int64
		if c, _ := fmt.Fscan(in, &op, &pass, &m, &n, &dtype, &options, &sms); c < 7 {
			out.Flush()
			return
		}
		l, ok := Pick(op, pass, m, n, dtype, options, sms)
		if !ok {
			fmt.Fprintln(out, "default")
			continue
		}
		fmt.Fprint(out, l.Rule, " ", l.Family)
		%s
		fmt.Fprintln(out)
	}
}

var in, out = bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
`
	pythonMain = `
import sys
for line in sys.stdin:
    op, pass_, m, n, dtype, options, sms = line.split()
    a = pick(op, pass_, int(m), int(n), dtype, int(options), int(sms))
    if a is None:
        print("default")
    else:
        print(a["rule"], a["family"], *("%s=%d" % (k, a.get(k, 0)) for k in KNOBS))
`
	cppMain = `
#include <iostream>
#include <string>
int main() {
  std::ios::sync_with_stdio(false);
  std::string op, pass_, dtype;
  std::int64_t m, n, options, sms;
  while (std::cin >> op >> pass_ >> m >> n >> dtype >> options >> sms) {
    const auto a = normbench::pick(op, pass_, m, n, dtype, options, sms);
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

// exported are how many random problems exported code is asked about.
func exported() int {
	if testing.Short() {
		return 5000
	}
	return 100000
}

// Program is what a program with these rules runs by default. Package families is asked from outside.
var Program func(s *Set) func(kernels.Problem, kernels.DeviceInfo) (kernels.Variant, error)

// TestExports runs the exported code on random problems: where it answers, that is the default of a program with the
// rules; elsewhere no rule that code can say is for the problem. At the columns of For it answers for most.
func TestExports(t *testing.T) {
	t.Run("example", func(t *testing.T) { testExports(t, example(t), nil, example(t).Random(1, exported()), 0.02) })
	for _, name := range []string{"rules", "zones"} {
		s, err := Read("../../results/nvidia-h200/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		program, ps := Program(s), s.Random(1, exported())
		if name == "rules" {
			t.Run(name, func(t *testing.T) { testExports(t, s, program, s.coded().Random(1, exported()), 0.02) })
		}
		r := rand.New(rand.NewPCG(1, 2))
		columns := []int64{99, 1024, 1536, 4096, 5000, 8191, 16384}
		var like []kernels.Problem
		for i := range ps {
			c := Class{Op: []kernels.Op{kernels.RMSNorm, kernels.LayerNorm}[i%2], Pass: []kernels.Pass{kernels.Fwd, kernels.Bwd}[i/2%2], Bytes: int64(2 + i/4%2*2), With: Options(i % 2)}
			q := c.Problem(ps[i].M, columns[r.IntN(len(columns))])
			if ps[i].DType.Size() == c.Bytes {
				q.DType, q.Weight = ps[i].DType, ps[i].DType
			}
			if ps[i] = q; q.Validate() != nil {
				ps[i].M = 1
			}
			if i < 1000 {
				like = append(like, ps[i])
			}
		}
		t.Run(name+"/columns", func(t *testing.T) {
			made := s.For(like, func(p kernels.Problem) (kernels.Variant, error) { return program(p, s.Device) })
			if err := made.CheckValid(); err != nil {
				t.Fatal(err)
			}
			testExports(t, made, program, ps, 0.3)
		})
	}
}

// testExports asks for the problems, of which a share at least has an answer.
func testExports(t *testing.T, s *Set, program func(kernels.Problem, kernels.DeviceInfo) (kernels.Variant, error), ps []kernels.Problem, share float64) {
	var in, want bytes.Buffer
	coded := s.coded()
	knobs := coded.knobs()
	fired := 0
	for i, p := range ps {
		d := s.Device
		if i%5 == 0 && program == nil {
			d.SMs = 1 + i%200
		}
		fmt.Fprintln(&in, p.Op, p.Pass, p.M, p.N, p.DType, int(OptionsOf(p)), d.SMs)
		at := At(p, d)
		at.If = func(Place, *List, *Rule) bool { return true }
		a := coded.Choose(&at, nil)
		if a.Match != MatchRule || a.Rule().If != "" || a.Rule().Config.String() == "" {
			fmt.Fprintln(&want, "default")
			continue
		}
		fired++
		number := a.Index + 1
		for l := range coded.Lists {
			if &coded.Lists[l] == a.List {
				break
			}
			number += len(coded.Lists[l].Rules)
		}
		v := a.Variant(&at)
		if program != nil {
			// A knob that a rule leaves out is 0 in code.
			runs, err := program(p, d)
			other := func(k *kernels.Knob) bool { return runs.Config.Get(k) != v.Config.Get(k) }
			if runs.Family != v.Family || slices.ContainsFunc(kernels.Knobs(), other) {
				t.Errorf("%s: rule %d of %s (%s) has %s, a program runs %s, %v", p, a.Index+1, a.List.Title(), a.Rule().Box, v, runs, err)
			}
		}
		fmt.Fprint(&want, number, " ", v.Family)
		for _, k := range knobs {
			fmt.Fprintf(&want, " %s=%d", k.Name, v.Config.Get(k))
		}
		fmt.Fprintln(&want)
	}
	for _, sides := range []string{"0 4096", "-4 4096", "128 0", "128 -4096", "4 2305843009213693953"} { // no rows, as of an empty batch
		for _, pass := range []string{"rmsnorm fwd ", "rmsnorm bwd ", "layernorm fwd ", "layernorm bwd "} {
			fmt.Fprintln(&in, pass+sides+" bf16 0", s.Device.SMs)
			fmt.Fprintln(&want, "default")
		}
	}
	if float64(fired) < share*float64(len(ps)) {
		t.Errorf("rules fired %d times of %d only", fired, len(ps))
	}
	if t.Failed() {
		return
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

// found is the first of some CTAs that there is; without one the test is
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
