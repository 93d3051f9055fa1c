package families_test

import (
	"errors"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/nvrtc"
)

// sources are the families' identities with one file edited, or all, or all of an extension.
func sources(t *testing.T, kind, changed string, edit func(text string) string) map[string]string {
	t.Helper()
	r := families.New()
	r.File = func(name string) (string, error) {
		text, err := families.File(name)
		if name == changed || (changed == "all" || changed == path.Ext(name)) && err == nil {
			text = edit(text)
		}
		return text, err
	}
	id, m := families.NewIdentity(r, kind), map[string]string{}
	for _, f := range r.Families {
		s, err := id.Source(f)
		if err != nil || len(s) != 12 {
			t.Fatalf("%s with %s edited: %q, %v", f.Name, changed, s, err)
		}
		m[f.Name] = s
	}
	return m
}

// embedded are the source files of this package that end in one of exts.
func embedded(t *testing.T, exts ...string) []string {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if slices.Contains(exts, path.Ext(e.Name())) && !strings.HasSuffix(e.Name(), "_test.go") {
			names = append(names, e.Name())
		}
	}
	return names
}

// comment adds comments and blank lines, and edits the first word of those that are there.
func comment(text string) string {
	text = regexp.MustCompile(`(?m)^(\s*)// \w+`).ReplaceAllString(text, "$1// Reworded")
	lines := strings.SplitAfter(text, "\n")
	at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "package ") }) + 1
	return strings.Join(lines[:at], "") + "\n// A new comment.\n\n/* And\n another. */\n" + strings.Join(lines[at:], "")
}

// What no code depends on changes no identity, on a GPU and on the host; on a GPU no Go text does.
func TestIdentityOfComments(t *testing.T) {
	before := map[string]map[string]string{}
	for _, kind := range []string{kernels.KindCUDA, kernels.KindCPU} {
		before[kind] = sources(t, kind, "", nil)
		if !maps.Equal(before[kind], sources(t, kind, "all", comment)) {
			t.Errorf("%s: comments change identities", kind)
		}
		crlf := func(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }
		if !maps.Equal(before[kind], sources(t, kind, "all", crlf)) {
			t.Errorf("%s: ends of lines change identities", kind)
		}
	}
	if gone := sources(t, kernels.KindCUDA, ".go", func(string) string { return "" }); !maps.Equal(before[kernels.KindCUDA], gone) {
		t.Error("Go text changes identities on a GPU")
	}
	blanks := func(text string) string {
		var b strings.Builder
		for line := range strings.Lines(text) {
			if !strings.ContainsAny(line, `"/\`) {
				line = strings.NewReplacer(" + ", "+", "; ", ";\n\n", ", ", "\t,", "float ", "float \\\n", "#if ", " #  if  ").Replace(line)
			}
			b.WriteString(line)
		}
		return b.String()
	}
	for what, edit := range map[string]func(string) string{
		"blanks":    blanks,
		"dead code": func(text string) string { return "#if 0\n int it's dead;\n#endif\n" + text },
		"unused helpers": func(text string) string {
			return text + `
template <int N> __device__ Raw<N> idler(float v) { return load<N>(&v); }
#define IDLE(x) (x + 1)
constexpr int IDLES = 3;
struct Idler { Raw<IDLES> v; };
`
		},
	} {
		if !maps.Equal(before[kernels.KindCUDA], sources(t, kernels.KindCUDA, "all", edit)) {
			t.Errorf("%s change identities", what)
		}
	}
}

// An edit of CUDA code changes the families whose kernels reach it, and no other.
func TestIdentityOfCode(t *testing.T) {
	before := sources(t, kernels.KindCUDA, "", nil)
	changed := func(file string, edit func(string) string) (names []string) {
		for name, s := range sources(t, kernels.KindCUDA, file, edit) {
			if s != before[name] {
				names = append(names, name)
			}
		}
		return slices.Sorted(slices.Values(names))
	}
	for _, file := range embedded(t, ".cu", ".cuh") { // a variable is in every cubin
		got := changed(file, func(text string) string { return text + "\nint more;\n" })
		var want []string
		for _, f := range families.New().Families {
			if slices.Contains(f.Files, file) {
				want = append(want, f.Name)
			}
		}
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("%s changes the identities of %v, want %v", file, got, want)
		}
	}
	for _, tt := range []struct {
		file, old, new string
		one, other     string // of the one, not of the other
	}{
		{"common.cuh", "phase) {\n", "phase) {\n  phase += 2;\n", "rms_fwd/cta_reg", "rms_fwd/copy"},        // sumOver
		{"common.cuh", "*amax, u32 most) {", "*amax, u32 most) {\n  most++;", "ln_fwd/tile", "ln_bwd/coop"}, // amaxOver
		{"common.cuh", "u64 policy;", "u64 policy = 0;", "rms_bwd/smem_pipe", "rms_fwd/empty"},              // rowPolicy
		{"common.cuh", "#define ROW_ORDER 0", "#define ROW_ORDER 1", "rms_bwd/two_pass", "rms_fwd/empty"},
		{"common.cuh", "#if CACHE_HINT & 4", "#if CACHE_HINT & 8", "rms_bwd/split", "rms_fwd/pair"},
		{"reduce.cu", "constexpr int EACH =", "constexpr int EACH = 0 *", "ln_bwd/split", "ln_fwd/coop"},
		{"ruler.cu", "do asm", "while (0); do asm", "rms_fwd/spin", "rms_fwd/stream"},
	} {
		got := changed(tt.file, func(text string) string {
			if strings.Count(text, tt.old) != 1 {
				t.Fatalf("%s has %q %d times", tt.file, tt.old, strings.Count(text, tt.old))
			}
			return strings.Replace(text, tt.old, tt.new, 1)
		})
		if !slices.Contains(got, tt.one) || slices.Contains(got, tt.other) {
			t.Errorf("%q of %s changes %v; want %s and not %s", tt.old, tt.file, got, tt.one, tt.other)
		}
	}
	for _, f := range families.New().Families { // and its files are all that its launches are compiled from
		for _, file := range f.Files {
			text, err := families.File(file)
			if err != nil {
				t.Errorf("%s: %v", f.Name, err)
			}
			for line := range strings.Lines(text) {
				if name, ok := strings.CutPrefix(line, `#include "`); ok && !slices.Contains(f.Files, strings.Trim(name, "\"\n")) {
					t.Errorf("%s of %s includes %s, which its identity leaves out", file, f.Name, name)
				}
			}
		}
	}
	flags := nvrtc.FixedFlags
	defer func() { nvrtc.FixedFlags = flags }()
	nvrtc.FixedFlags = append(slices.Clone(flags), "--use_fast_math")
	if got := changed("", nil); len(got) != len(before)-2 || slices.Contains(got, "rms_fwd/copy") { // a copy of the driver's
		t.Errorf("a flag changes %d of %d identities", len(got), len(before))
	}
}

// An edit of a host stage, or of what it calls, changes the families that run it; launch rules do not.
func TestIdentityOfHostStages(t *testing.T) {
	before := sources(t, kernels.KindCPU, "", nil)
	changed := func(file, old, new string) (names []string) {
		after := sources(t, kernels.KindCPU, file, func(text string) string {
			if !strings.Contains(text, old) {
				t.Fatalf("%s has no %q", file, old)
			}
			return strings.ReplaceAll(text, old, new)
		})
		for name := range before {
			if before[name] != after[name] {
				names = append(names, name)
			}
		}
		return slices.Sorted(slices.Values(names))
	}
	if got, want := changed("fwd_cta_reg.go", "func hostCTAReg(h *kernels.HostRun, pid int) {", "func hostCTAReg(h *kernels.HostRun, pid int) { println();"), []string{"ln_fwd/cta_reg", "ln_fwd/two_pass", "rms_fwd/cta_reg", "rms_fwd/two_pass"}; !slices.Equal(got, want) {
		t.Errorf("hostCTAReg is of %v, want %v", got, want)
	}
	if got := changed("reduce.go", "func hostReduce(h *kernels.HostRun, pid int) {", "func hostReduce(h *kernels.HostRun, pid int) { println();"); !slices.Contains(got, "ln_bwd/two_pass") || slices.Contains(got, "ln_fwd/cta_reg") {
		t.Errorf("hostReduce is of %v", got)
	}
	all := slices.DeleteFunc(slices.Sorted(maps.Keys(before)), func(n string) bool {
		return slices.Contains([]string{"empty", "pair", "spin", "kept", "released"}, n[strings.IndexByte(n, '/')+1:])
	})
	if got := changed("kernels/dtype.go", "return math.Float32frombits(uint32(b) << 16)", "return -math.Float32frombits(uint32(b) << 16)"); len(got) < len(all)/2 || !slices.Contains(got, "ln_bwd/coop") {
		t.Errorf("a helper of package kernels is of %v", got)
	}
	if got := changed("kernels/family.go", "func (f *Family) Space(", "func (f *Family) Spaces("); len(got) > 0 {
		t.Errorf("the spaces change %v", got)
	}
	if got := changed("fwd_cta_reg.go", `kernels.Values(kernels.BlockRows, 1, 2, 4, 8)`, `kernels.Values(kernels.BlockRows, 1, 2)`); len(got) > 0 {
		t.Errorf("the knobs of cta_reg change %v", got)
	}
}

// Launches counts geometry, arguments and the defines that the code mentions, and no other.
func TestIdentityOfLaunches(t *testing.T) {
	r := families.New()
	p, err := kernels.ParseProblem("rmsnorm/bwd/4096x8192/bf16")
	if err != nil {
		t.Fatal(err)
	}
	d := kernels.DeviceInfo{Kind: kernels.KindCUDA, Arch: "sm_90", SMs: 132, CacheBytes: 60 << 20, SharedPerBlock: 227 << 10, RegsPerSM: 64 << 10}
	f, err := r.Lookup("rms_bwd/reg_persist")
	if err != nil {
		t.Fatal(err)
	}
	hash := func(kind string, edit func(l *kernels.Launch)) string {
		plan := f.Plan(p, f.Base(p, d), d)
		edit(&plan.Launches[0])
		s, err := families.NewIdentity(r, kind).Launches(plan)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	none := func(*kernels.Launch) {}
	before := hash(kernels.KindCUDA, none)
	for what, edit := range map[string]func(l *kernels.Launch){
		"a grid":      func(l *kernels.Launch) { l.Grid[0]++ },
		"a block":     func(l *kernels.Launch) { l.Block += 32 },
		"an argument": func(l *kernels.Launch) { l.Args = append(l.Args, kernels.Int64("n", 1)) },
		"a define":    func(l *kernels.Launch) { l.Defines[0].Value++ },
	} {
		if hash(kernels.KindCUDA, edit) == before {
			t.Errorf("%s does not count", what)
		}
	}
	unread := func(l *kernels.Launch) {
		l.Defines = append(l.Defines, kernels.Define{Name: "NO_CODE_READS_THIS", Value: 1})
	}
	if hash(kernels.KindCUDA, unread) != before {
		t.Error("a define that no code mentions counts")
	}
	if hash(kernels.KindCPU, unread) == hash(kernels.KindCPU, none) {
		t.Error("on the host a define does not count")
	}
}

// What a file cannot tell is an error.
func TestIdentityWithoutFile(t *testing.T) {
	r := families.New()
	r.File = func(string) (string, error) { return "", os.ErrNotExist }
	for _, kind := range []string{kernels.KindCUDA, kernels.KindCPU} {
		if s, err := families.NewIdentity(r, kind).Source(r.Families[0]); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %q, %v", kind, s, err)
		}
	}
}
