package launchrule

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devicetest"
)

func TestCheckValid(t *testing.T) {
	for want, edit := range map[string]func(*Set){
		"schema 3 is newer than 2, the newest that this normbench reads": func(s *Set) { s.Schema = 3 },
		`not a rules file: kind "", schema 2`:                            func(s *Set) { s.Kind = "" },
		`rules of no device: ID "" with 132 SMs`:                         func(s *Set) { s.Device.ID = "" },
		`rules of no device: ID "nvidia-h200" with 0 SMs`:                func(s *Set) { s.Device.SMs = 0 },
		"rules without a date":                                           func(s *Set) { s.Date, s.Lists = time.Time{}, s.Lists[:2] },
		"rules for no class of problems":                                 func(s *Set) { s.Lists = nil },
		"class rmsnorm/fwd/3-byte: elements of 3 bytes":                  func(s *Set) { s.Lists[0].Bytes = 3 },
		`class rmsnorm/up/4-byte: unknown pass "up"`:                     func(s *Set) { s.Lists = s.Lists[:1]; s.Lists[0].Pass = "up" },
		"class rmsnorm/fwd/4-byte: hull 9000 <= N <= 8192, 1 <= M/SM <= 1000, N*M/SM <= 1048576 holds nothing": func(s *Set) { s.Lists[0].Hull.NMin = 9000 },
		"class rmsnorm/bwd/2-byte: rule 1: no family":                                                          func(s *Set) { s.Lists[1].Rules[0].Family = "" },
		"class rmsnorm/bwd/2-byte: rule 1: row_bytes 1000 is no power of two":                                  func(s *Set) { s.Lists[1].Rules[0].RowBytes = 1000 },
		"class rmsnorm/bwd/2-byte: rule 1: row_bytes 0 with 2 knobs that follow the row":                       func(s *Set) { s.Lists[1].Rules[0].RowBytes = 0 },
		`class rmsnorm/bwd/2-byte: rule 1: unknown knob "wraps"`:                                               func(s *Set) { s.Lists[1].Rules[0].Grow = []string{"wraps"} },
		`class rmsnorm/bwd/2-byte: rule 1: knob "w" by its key where its name belongs`:                         func(s *Set) { s.Lists[1].Rules[0].Grow = []string{"w"} },
		`class rmsnorm/bwd/2-byte: rule 1: knob "warps" follows the row twice`:                                 func(s *Set) { s.Lists[1].Rules[0].Shrink = []string{"warps"} },
	} {
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
		"80 < M/SM <= 80":      func(b *Box) { b.MOver = Whole(80) },
		"600 < N <= 512":       func(b *Box) { b.NOver = 600 },
		"7 < M <= 7":           func(b *Box) { b.RowsOver, b.RowsMax = 7, 7 },
		"M > -1":               func(b *Box) { b.RowsOver = -1 },
		"M <= -1":              func(b *Box) { b.RowsMax = -1 },
		"M <= 2147483649":      func(b *Box) { b.RowsMax = 1<<31 + 1 },
		"M a multiple of -4":   func(b *Box) { b.Multiple = -4 },
		"M a multiple of 4611": func(b *Box) { b.Multiple = 1 << 62 },
		"9 < M <= 11":          func(b *Box) { b.RowsOver, b.RowsMax, b.Multiple = 9, 11, 4 },
	} {
		s := example(t)
		edit(&s.Lists[1].Rules[0].Box)
		if err := s.CheckValid(); err == nil || !strings.HasSuffix(err.Error(), "no problem can be in the box") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
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
		{Box{RowsOver: 63, RowsMax: 128}, Box{RowsOver: 63, RowsMax: 128, Multiple: 2}, "63 < M <= 128", [2]int64{128, 1}, [2]int64{129, 1}},
		{Box{Multiple: 4}, Box{Multiple: 12}, "M a multiple of 4", [2]int64{8, 1}, [2]int64{9, 1}},
		{Box{Multiple: 4}, Box{RowsOver: 11, RowsMax: 12}, "M a multiple of 4", [2]int64{12, 1}, [2]int64{13, 1}},
		{Box{MOver: Whole(2), RowsOver: 100}, Box{MOver: Whole(3), RowsOver: 101}, "M/SM > 2, M > 100", [2]int64{300, 1}, [2]int64{200, 1}},
		{Box{RowsMax: 1}, Box{RowsMax: 1, RowAlign: 16}, "M = 1", [2]int64{1, 8}, [2]int64{2, 8}},
	} {
		if got := tc.b.String(); got != tc.text {
			t.Errorf("got %q, want %q", got, tc.text)
		}
		holds := func(m, n int64) bool {
			at := At(kernels.Problem{M: m, N: n, DType: kernels.BF16}, devicetest.H200())
			return tc.b.Holds(&at)
		}
		if !holds(tc.at[0], tc.at[1]) || tc.no != [2]int64{} && holds(tc.no[0], tc.no[1]) {
			t.Errorf("%s: does not hold %v, or holds %v", tc.b, tc.at, tc.no)
		}
		if tc.b.Empty() || !tc.b.Covers(tc.in) || !tc.b.Covers(tc.b) || tc.in != tc.b && tc.in.Covers(tc.b) {
			t.Errorf("%s and %s within", tc.b, tc.in)
		}
	}
}

// TestReadBack: a file is written as it was read, byte for byte.
func TestReadBack(t *testing.T) {
	for _, name := range []string{"testdata/rules.json", "../../results/nvidia-h200/rules.json"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Parse(name, text)
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.JSON()
		if strings.Contains(name, "results") {
			again = durable.SealText(again)
		}
		if diff := cmp.Diff(string(text), string(again)); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

// TestSchema1: files of schema 1 are read, and answer as they did.
func TestSchema1(t *testing.T) {
	for _, tc := range []struct{ file, problem, want string }{
		{"schema1", "rmsnorm/bwd/4096x256/bf16+zc", "rms_bwd/reg_persist@br8.w8.v0.st2.k4.p0.ho1.ro0.so0.pt0.rc32.rr128.rw32.er0.lb0.ch0"},
		{"schema1", "rmsnorm/bwd/4096x256/bf16+bias", "@"},
		{"schema1-launches", "layernorm/fwd/64x4096/fp16+bias+residual", "ln_fwd/cta_reg@br4.w8"},
		{"schema1-launches", "layernorm/fwd/64x4096/bf16+bias+residual", "@"},
		{"schema1-launches", "layernorm/fwd/64x4096/fp16+bias", "@"},
	} {
		s, err := Read("testdata/" + tc.file + ".json")
		if err != nil {
			t.Fatal(err)
		}
		p, err := kernels.ParseProblem(tc.problem)
		if err != nil {
			t.Fatal(err)
		}
		if _, v := s.Pick(p); v.String() != tc.want {
			t.Errorf("%s: %s: got %s, want %s", tc.file, tc.problem, v, tc.want)
		}
		if text, err := s.JSON(); err != nil || s.Schema != Schema || s.Of != "" {
			t.Errorf("%s as schema 2: %v\n%.200s", tc.file, err, text)
		}
	}
}

func TestParseErrors(t *testing.T) {
	good, err := example(t).JSON()
	if err != nil {
		t.Fatal(err)
	}
	for edit, want := range map[string]string{
		`"n_over": 4096|"n_above": 4096`:  `f:77: class rmsnorm/bwd/2-byte: rule 2: unknown field "n_above"`,
		`"config": "br1.|"config": "zz1.`: `f:77: class rmsnorm/bwd/2-byte: rule 2: unknown knob "zz" in config "zz1.bc8192.w16.v0.k0.p0.sp0.ro0.so0.pt0.rc32.rr128.rw32.er0.lb0.ch0"`,
		`"schema": 2|"schema": 9`:         "f: schema 9 is newer than 2, the newest that this normbench reads",
		`"schema": 2|"schema": "x"`:       `f: string is no value for "schema"`,
		`"n_max": 512|"n_max": "512"`:     `f:76: class rmsnorm/bwd/2-byte: rule 1: string is no value for "n_max"`,
		`"kind": "rules"|"entries": []`:   "f is a tuned table, and holds no rules",
		`"op": "rmsnorm"|"op": "rms"`:     `f:49: class rms/fwd/4-byte: unknown op "rms"`,
		`{|{{`:                            "f: invalid character '{' looking for beginning of object key string",
	} {
		from, to, _ := strings.Cut(edit, "|")
		if _, err := Parse("f", []byte(strings.Replace(string(good), from, to, 1))); err == nil || err.Error() != want || hint.Of(err) == "" {
			t.Errorf("%s:\n got %v\nwant %s", edit, err, want)
		}
	}
	twice := strings.Replace(string(good), `{"n_over": 4096, "row_align": 16,`, `{"n_max": 512, "m_per_sm_over": 4, "m_per_sm_max": 80, "config":"w1", "family": "x"}, {"row_align": 16,`, 1)
	if _, err := Parse("f", []byte(twice)); err == nil || err.Error() != "f:77: class rmsnorm/bwd/2-byte: rule 2: the box of rule 1, N <= 512, 4 < M/SM <= 80, once more: it is never reached" {
		t.Errorf("got %v", err)
	}
	for _, text := range []string{"", "\t: [", string(good) + "{}", "schema: 1\nkind: rules\n"} {
		if _, err := Parse("f", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), "f:") || hint.Of(err) == "" {
			t.Errorf("%q: got %v", text, err)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); err == nil || hint.Of(err) == "" {
		t.Errorf("got %v", err)
	}
}

// TestYAML: YAML says where it is wrong, and a changed value is noticed, whatever its layout.
func TestYAML(t *testing.T) {
	good, err := example(t).YAML()
	if err != nil {
		t.Fatal(err)
	}
	edit := func(from, to string) []byte {
		if !bytes.Contains(good, []byte(from)) {
			t.Fatalf("no %q", from)
		}
		return bytes.Replace(good, []byte(from), []byte(to), 1)
	}
	line := func(text []byte, what string) int {
		before, _, _ := bytes.Cut(text, []byte(what))
		return 1 + bytes.Count(before, []byte("\n"))
	}
	again, err := Parse("f", edit("sms: 132", "sms:   132 # of them"))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := again.YAML(); err != nil || !bytes.Equal(text, good) {
		t.Errorf("%v: %s", err, cmp.Diff(string(good), string(text)))
	}
	unsealed := regexp.MustCompile(`(?m)^crc: .*\n`).ReplaceAllLiteral(good, nil)
	for _, tc := range []struct {
		text []byte
		want string
	}{
		{edit("sms: 132", "sms: 133"), "f: the file's checksum does not match: it was changed by hand, or is damaged"},
		{good[:bytes.LastIndexByte(good[:len(good)-1], '\n')+1], "f: the file's checksum does not match: it was changed by hand, or is damaged"},
		{edit("noise: 0.03", "noise: 0.04"), "f: the file's checksum does not match: it was changed by hand, or is damaged"},
		{edit("kind: rules\n", "kind: rules\nkind: rules\n"), "f:4:1: the field kind stands twice"},
		{append(slices.Clip(good), "---\na: 1\n"...), fmt.Sprintf("f:%d:1: a second document", line(good, "no such text")+1)},
		{edit("sms: 132", "sms: [132"), fmt.Sprintf("f:%d:3: ", line(good, "sms:")+1)},
		{bytes.Replace(unsealed, []byte("n_over: 4096"), []byte("n_over: -7"), 1), fmt.Sprintf("f:%d: class ", line(unsealed, "n_over: 4096"))},
	} {
		if _, err := Parse("f", tc.text); err == nil || !strings.HasPrefix(err.Error(), tc.want) || hint.Of(err) == "" {
			t.Errorf("got %v, want %q", err, tc.want)
		}
	}
	large := example(t)
	for i := range 5000 {
		large.Sources[fmt.Sprintf("family_%d_%s", i, strings.Repeat("x", 60))] = "0123456789ab"
	}
	if _, err := large.YAML(); err == nil || hint.Of(err) != "write JSON: it may be larger" {
		t.Errorf("YAML that cannot be read again: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"rules.json", "rules.yaml"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		f.Add(append([]byte("\xef\xbb\xbf"), text...))
		f.Add(bytes.Replace(text, []byte("schema"), []byte("schema\": 2, \"schema"), 1))
		f.Add(bytes.Replace(text, []byte("nvidia-"), []byte("../../nvidia-"), 1))
		f.Add(bytes.Replace(text, []byte("rms"), []byte("\x1b[2Jrms"), 1))
		f.Add(text[:len(text)/2])
	}
	f.Add([]byte(`{"schema":` + strings.Repeat("[", 2000)))
	f.Add([]byte(`{"schema":2,"rules":null,"crc":"00000000"}`))
	f.Add([]byte("schema: .nan\ndevice: {id: .inf}"))
	f.Add([]byte("schema: 1\nkind: rules\ndate: 2026-01-01T00:00:00Z\ndevice: {id: A, sms: 1}\nclasses:\n- op: rmsnorm\n  pass: bwd"))
	same := cmp.Options{cmpopts.EquateEmpty(), cmp.Comparer(func(a, b kernels.Config) bool { return a == b })}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("f", data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") || strings.Contains(err.Error(), "\n") || hint.Of(err) == "" {
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
		if diff := cmp.Diff(string(text), string(twice)); diff != "" || err != nil || !cmp.Equal(s.Lists, again.Lists, same) {
			t.Fatal(diff, err)
		}
		for _, format := range Formats {
			text, err := s.Export(format)
			if err == nil && format == "yaml" {
				var again *Set
				if again, err = Parse("yaml", text); err == nil && !cmp.Equal(s.Lists, again.Lists, same) {
					t.Fatalf("it reads otherwise as YAML:\n%s", text)
				}
			}
			if err != nil && !strings.Contains(err.Error(), "the rules: YAML of more than") {
				t.Fatalf("%s: %v", format, err)
			}
		}
		for _, p := range s.Random(1, 20) {
			s.Pick(p)
		}
	})
}

func TestWorse(t *testing.T) {
	better, other, classes, stale := example(t), example(t), example(t), example(t)
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
	} {
		err := s.Worse(tc.old)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || err.Error() != tc.want || hint.Of(err) == "") {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}
