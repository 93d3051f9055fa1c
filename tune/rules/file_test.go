package rules

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
)

func TestCheckValid(t *testing.T) {
	for want, edit := range map[string]func(*Set){
		"schema 2 is newer than 1, the newest that this normbench reads":                                       func(s *Set) { s.Schema = 2 },
		`not a rules file: kind "", schema 1`:                                                                  func(s *Set) { s.Kind = "" },
		`rules of no device: ID "" with 132 units`:                                                             func(s *Set) { s.Device.ID = "" },
		`rules of no device: ID "nvidia-h200" with 0 units`:                                                    func(s *Set) { s.Device.Units = 0 },
		"rules without a date":                                                                                 func(s *Set) { s.Date = time.Time{} },
		"rules for no class of problems":                                                                       func(s *Set) { s.Classes = nil },
		"class rmsnorm/fwd/4-byte stands twice or out of order":                                                func(s *Set) { s.Classes[0], s.Classes[1] = s.Classes[1], s.Classes[0] },
		"class rmsnorm/fwd/3-byte: elements of 3 bytes":                                                        func(s *Set) { s.Classes[0].Bytes = 3 },
		`class rmsnorm/up/4-byte: unknown pass "up"`:                                                           func(s *Set) { s.Classes = s.Classes[:1]; s.Classes[0].Pass = "up" },
		"class rmsnorm/fwd/4-byte: hull 9000 <= N <= 8192, 1 <= M/SM <= 1000, N*M/SM <= 1048576 holds nothing": func(s *Set) { s.Classes[0].Hull.NMin = 9000 },
		"class rmsnorm/bwd/2-byte: rule 1: 80 < M/SM <= 80, N <= 512: no problem can be in the box":            nil,
		"class rmsnorm/bwd/2-byte: rule 1: no family":                                                          func(s *Set) { s.Classes[1].Rules[0].Family = "" },
		"class rmsnorm/bwd/2-byte: rule 1: row_bytes 1000 is no power of two":                                  func(s *Set) { s.Classes[1].Rules[0].RowBytes = 1000 },
		"class rmsnorm/bwd/2-byte: rule 1: row_bytes 0 with 2 knobs that follow the row":                       func(s *Set) { s.Classes[1].Rules[0].RowBytes = 0 },
		`class rmsnorm/bwd/2-byte: rule 1: unknown knob "wraps"`:                                               func(s *Set) { s.Classes[1].Rules[0].Grow = []string{"wraps"} },
		`class rmsnorm/bwd/2-byte: rule 1: knob "w" by its key where its name belongs`:                         func(s *Set) { s.Classes[1].Rules[0].Grow = []string{"w"} },
		`class rmsnorm/bwd/2-byte: rule 1: knob "warps" follows the row twice`:                                 func(s *Set) { s.Classes[1].Rules[0].Shrink = []string{"warps"} },
	} {
		if edit == nil {
			continue
		}
		s := example(t)
		edit(s)
		if err := s.CheckValid(); err == nil || err.Error() != want || hint.Of(err) == "" {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if _, err := s.JSON(); err == nil {
			t.Errorf("%s: was written", want)
		}
	}
	for want, edit := range map[string]func(b *Box){
		"80 < M/SM <= 80":      func(b *Box) { b.MOver = 80 },
		"600 < N <= 512":       func(b *Box) { b.NOver = 600 },
		"7 < M <= 7":           func(b *Box) { b.RowsOver, b.RowsMax = 7, 7 },
		"M > -1":               func(b *Box) { b.RowsOver = -1 },
		"M <= -1":              func(b *Box) { b.RowsMax = -1 },
		"M <= 2147483649":      func(b *Box) { b.RowsMax = 1<<31 + 1 },
		"M a multiple of -4":   func(b *Box) { b.RowsMultiple = -4 },
		"M a multiple of 4611": func(b *Box) { b.RowsMultiple = 1 << 62 },
		"9 < M <= 11":          func(b *Box) { b.RowsOver, b.RowsMax, b.RowsMultiple = 9, 11, 4 },
	} {
		s := example(t)
		edit(&s.Classes[1].Rules[0].Box)
		if err := s.CheckValid(); err == nil || !strings.HasSuffix(err.Error(), "no problem can be in the box") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for want, edit := range map[string]func(*Set){
		`launches of "" with 3 problems that they are of`:                                                        func(s *Set) { s.Of, s.Date = "", example(t).Date },
		`launches of "preset:small" with 0 problems that they are of`:                                            func(s *Set) { s.UpTo = nil },
		"launches of rmsnorm/bwd/8192x4096/fp16 without rules for it":                                            func(s *Set) { s.Classes = s.Classes[1:] },
		"class rmsnorm/bwd/2-byte: rule 1: N = 4096, M <= 8193 is of no problem that the launches are of":        func(s *Set) { s.Classes[0].Rules[0].RowsMax = 8193 },
		"class rmsnorm/bwd/2-byte: rule 1: N = 4096 is of no problem that the launches are of":                   func(s *Set) { s.Classes[0].Rules[0].RowsMax = 0 },
		"class rmsnorm/bwd/2-byte: rule 1: 4000 < N <= 4096, M = 1 is of no problem that the launches are of":    func(s *Set) { s.Classes[0].Rules[0].NOver = 4000 },
		"class rmsnorm/bwd/2-byte: rule 1: N = 5120, M = 1 is of no problem that the launches are of":            func(s *Set) { s.Classes[0].Rules[0].NOver, s.Classes[0].Rules[0].NMax = 5119, 5120 },
		"class rmsnorm/bwd/2-byte: rule 1: N = 4096, M/SM <= 3, M = 1 is of no problem that the launches are of": func(s *Set) { s.Classes[0].Rules[0].MMax = 3 },
		`not a rules file: kind "x", schema 1`:                                                                   func(s *Set) { s.Kind = "x" },
	} {
		s := launches(t)
		edit(s)
		if err := s.CheckValid(); err == nil || err.Error() != want || hint.Of(err) == "" {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestBoxes(t *testing.T) {
	for _, tc := range []struct {
		b, in  Box // in is within b
		text   string
		at, no [2]int64 // rows and columns that it holds, and does not
	}{
		{Box{}, Box{NMax: 1}, "always", [2]int64{5, 5}, [2]int64{}},
		{Box{NOver: 4095, NMax: 4096}, Box{NOver: 4095, NMax: 4096, RowsMax: 8}, "N = 4096", [2]int64{5, 4096}, [2]int64{5, 4097}},
		{Box{NMax: 4096, RowsOver: 63, RowsMax: 128}, Box{NMax: 4096, RowsOver: 64, RowsMax: 128}, "N <= 4096, 63 < M <= 128", [2]int64{64, 1}, [2]int64{63, 1}},
		{Box{RowsOver: 63, RowsMax: 128}, Box{RowsOver: 63, RowsMax: 128, RowsMultiple: 2}, "63 < M <= 128", [2]int64{128, 1}, [2]int64{129, 1}},
		{Box{RowsMultiple: 4}, Box{RowsMultiple: 12}, "M a multiple of 4", [2]int64{8, 1}, [2]int64{9, 1}},
		{Box{RowsMultiple: 4}, Box{RowsOver: 11, RowsMax: 12}, "M a multiple of 4", [2]int64{12, 1}, [2]int64{13, 1}},
		{Box{MOver: 2, RowsOver: 100}, Box{MOver: 3, RowsOver: 101}, "M/SM > 2, M > 100", [2]int64{300, 1}, [2]int64{200, 1}},
		{Box{RowsMax: 1}, Box{RowsMax: 1, RowAlign: 16}, "M = 1", [2]int64{1, 8}, [2]int64{2, 8}},
	} {
		if got := tc.b.String(); got != tc.text {
			t.Errorf("got %q, want %q", got, tc.text)
		}
		if !tc.b.Holds(tc.at[0], tc.at[1], 2, 132) || tc.no != [2]int64{} && tc.b.Holds(tc.no[0], tc.no[1], 2, 132) {
			t.Errorf("%s: does not hold %v, or holds %v", tc.b, tc.at, tc.no)
		}
		if tc.b.empty() || !tc.b.covers(tc.in) || !tc.b.covers(tc.b) || tc.in != tc.b && tc.in.covers(tc.b) {
			t.Errorf("%s and %s within", tc.b, tc.in)
		}
	}
}

// TestReadBack: a file is written as it was read, byte for byte, with launches or without.
func TestReadBack(t *testing.T) {
	for _, name := range []string{"testdata/rules.json", "testdata/launches.json", recorded + "/rules.json"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Parse(name, text)
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.JSON()
		if diff := cmp.Diff(string(text), string(again)); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

func TestParseErrors(t *testing.T) {
	good, err := example(t).JSON()
	if err != nil {
		t.Fatal(err)
	}
	for edit, want := range map[string]string{
		`"n_over": 4096|"n_above": 4096`:  `f: unknown field "n_above"`,
		`"config": "br1.|"config": "zz1.`: `f: unknown knob "zz" in config "zz1.bc8192.w16.v0.k0.p0.sp0.ro0.so0.pt0.rc32.rr128.rw32.er0.lb0.ch0"`,
		`"schema": 1|"schema": 9`:         "f: schema 9 is newer than 1, the newest that this normbench reads",
		`"schema": 1|"schema": "x"`:       `f: string is no value for "schema"`,
		`"op": "rmsnorm"|"op": "rms"`:     `f: class rms/fwd/4-byte: unknown op "rms"`,
		`{|{{`:                            "f: invalid character '{' looking for beginning of object key string",
	} {
		from, to, _ := strings.Cut(edit, "|")
		if _, err := Parse("f", []byte(strings.Replace(string(good), from, to, 1))); err == nil || err.Error() != want || hint.Of(err) == "" {
			t.Errorf("%s:\n got %v\nwant %s", edit, err, want)
		}
	}
	for _, text := range []string{"", "\t: [", string(good) + "{}", "schema: 1\nkind: rules\n"} {
		if _, err := Parse("f", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), "f: ") || hint.Of(err) == "" {
			t.Errorf("%q: got %v", text, err)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); err == nil || hint.Of(err) == "" {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"rules.json", "rules.yaml", "launches.json", "launches.yaml"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	same := cmp.Comparer(func(a, b kernels.Config) bool { return a == b })
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("f", data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f: ") || strings.Contains(err.Error(), "\n") || hint.Of(err) == "" {
				t.Fatalf("error %q", err)
			}
			return
		}
		text, err := s.JSON()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse("f", text)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := again.JSON()
		if diff := cmp.Diff(string(text), string(twice)); diff != "" || err != nil || !cmp.Equal(s.Classes, again.Classes, same) {
			t.Fatal(diff, err)
		}
		for _, format := range Formats {
			if _, err := s.Export(format); err != nil {
				t.Fatalf("%s: %v", format, err)
			}
		}
		for _, p := range randomProblems(s, 20) {
			s.Pick(p)
		}
	})
}

func TestWorse(t *testing.T) {
	better, other, classes, stale, of := example(t), example(t), example(t), example(t), launches(t)
	better.HeldOut[0].Regret = 1.01
	other.Device.ID = "nvidia-a100"
	classes.HeldOut = append(classes.HeldOut, Score{Class: "layernorm/bwd/2-byte+bias", Held: HeldShape, Chooser: ChooserRules, Regret: 1.01})
	stale.HeldOut[0].Regret = 1.001
	stale.Sources["rms_bwd/two_pass"] = "older"
	s := example(t)
	for name, tc := range map[string]struct {
		old  *Set
		want string
	}{
		"the same":       {example(t), ""},
		"better":         {better, "the rules there are better: regret 1.010 held out on rmsnorm/bwd/2-byte, against 1.020"},
		"another device": {other, "rules of nvidia-h200 do not replace rules of nvidia-a100"},
		"more classes":   {classes, "the rules there also have layernorm/bwd/2-byte+bias, which these records have not"},
		"stale":          {stale, ""},
		"launches":       {of, "rules fitted to records do not replace the launches of preset:small"},
	} {
		err := s.Worse(tc.old)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || err.Error() != tc.want || hint.Of(err) == "") {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
	again := launches(t)
	again.UpTo = again.UpTo[:1]
	if err := again.Worse(of); err != nil {
		t.Errorf("launches of other columns: %v", err)
	}
	if err := of.Worse(s); err == nil || err.Error() != "the launches of preset:small do not replace rules fitted to records" {
		t.Errorf("got %v", err)
	}
}

func TestLint(t *testing.T) {
	j := Judge{families.New(), devicetest.H200()}
	hash := func(f *kernels.Family) (string, error) { return "0123456789ab", nil }
	fresh := func() *Set {
		s := example(t)
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
	rule := func(s *Set, i int) *Rule { return &s.Classes[1].Rules[i] }
	for want, edit := range map[string]func(*Set){
		"":                  func(s *Set) { s.Classes[1].Rules = s.Classes[1].Rules[2:]; rule(s, 0).NMax = 32768 },
		"unknown family":    func(s *Set) { rule(s, 0).Family = "rms_bwd/gone" },
		"has no knob \"u\"": func(s *Set) { rule(s, 1).Config = config("u2") },
		"unreachable behind rule 1": func(s *Set) {
			s.Classes[1].Rules[1] = s.Classes[1].Rules[0]
			rule(s, 1).NMax = 256
		},
		"unreachable outside the hull":         func(s *Set) { rule(s, 2).NOver = 1 << 17 },
		"stale: the sources of rms_bwd/two_pa": func(s *Set) { s.Sources["rms_bwd/two_pass"] = "ba9876543210" },
		"refuses br3": func(s *Set) {
			rule(s, 1).Config = config("br3.bc8192.w16.v0.k0.p0.sp0.ro0.so0.pt0.rc32.rr128.rw32.er0.lb0.ch0")
		},
		"unreachable behind rule 2": func(s *Set) { // it has the rows of the one before
			s.Classes[1].Rules[2] = s.Classes[1].Rules[1]
			rule(s, 1).RowsMultiple, rule(s, 2).RowsMultiple = 4, 8
		},
		"unreachable outside the hull (64 <= N <= 65536, 1 <= M/SM <= 7944, N*M/SM <= 4194304)": func(s *Set) { rule(s, 2).RowsOver = 8000 * 132 },
		"unreachable outside the hull (64": func(s *Set) { rule(s, 1).MMax, rule(s, 1).RowsOver = 2, 264 },
		"not for nvidia-h200":              func(s *Set) { s.Device.ID = "nvidia-a100" },
		"does not serve rmsnorm bwd":       func(s *Set) { rule(s, 2).Family = "ln_bwd/two_pass" },
	} {
		s := fresh()
		edit(s)
		got := strings.Join(s.Lint(j, hash), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("got  %s\nwant %q", got, want)
		}
	}
}
