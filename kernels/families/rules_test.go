package families_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families"
	"normbench/kernels/launchmap"
)

// wild is a map of an H200, a third of whose cells have any configs that are accepted there: of
// four classes, with split lines and rows.
var wild = sync.OnceValue(func() *launchmap.Map {
	r, reg, d := rand.New(rand.NewPCG(38, 1)), families.NewRegistry(), devicetest.H200()
	m := &launchmap.Map{Device: d, Tool: "v0", Sources: map[string]string{}}
	for i, c := range launchmap.Classes() {
		if c.With != 0 && i%7 > 0 || c.Bytes == 4 && i%3 > 0 {
			continue
		}
		for _, align := range launchmap.Aligns(c.Bytes) {
			x := launchmap.Blank(c, align, d.SMs)
			x.Lines = slices.Insert(x.Lines, 13, launchmap.Band{From: 4096, Cells: x.Lines[0].Cells,
				Evidence: x.Lines[0].Evidence})
			for line := range x.Lines {
				for cell := range x.Rows {
					b := x.Box(line, cell, d.SMs)
					if b.Empty() || r.IntN(3) > 0 {
						continue
					}
					n := (b.NLo + r.Int64N(b.NHi-b.NLo+1)) * c.Bytes / align * align / c.Bytes
					p := c.Problem(b.MLo+r.Int64N(b.MHi-b.MLo+1), max(n, 1))
					fs := reg.FamiliesFor(p)
					f := fs[r.IntN(len(fs))]
					v := kernels.Variant{Family: f.Name, Config: f.Base(p, d)}
					if b.Accepts(reg, d, v) {
						x.Set(line, cell, v, launchmap.Measured)
					}
				}
			}
			m.Rasters = append(m.Rasters, *x)
		}
	}
	m.Sort()
	return m
})

// drawn is a random problem that maps are for and some family serves, with any options.
func drawn(r *rand.Rand) kernels.Problem {
	for {
		p := devicetest.Draw(r, 20, 16)
		if p.Op != "l2norm" && launchmap.CoversShape(p.M, p.N) {
			return p
		}
	}
}

// draws is how many problems a property is asked of.
func draws(least int) int {
	if !assert.All {
		return least / 10
	}
	return least
}

// TestDefaultOfEveryProblemIsAccepted: on every known device the default of every problem is accepted, by the program's
// maps and by a wild one, and its plan is one that the devices can take. A family's own base is of
// the map where one of its cells can run, and accepted where the analytic one is.
func TestDefaultOfEveryProblemIsAccepted(t *testing.T) {
	analytic, mapped := families.NewRegistry(), 0
	for _, r := range []*kernels.Registry{families.New(), families.NewRegistry(wild())} {
		for _, k := range launchmap.KnownDevices() {
			draw, d := rand.New(rand.NewPCG(38, 2)), k.DeviceInfo
			for range draws(500) {
				p := drawn(draw)
				v, err := r.Base(p, d)
				assert.NoError(t, err, k.Key, p)
				f, full, plan, err := r.Resolve(p, v, d)
				assert.Must(t, err == nil && full == v && !f.Hidden && !f.Stream,
					"%s: %s: base %s is %s, %v", k.Key, p, v, full, err)
				valid(t, p, d, f, v.Config, plan)
				// So does its stream, without which there is no ratio.
				stream := kernels.Variant{Family: r.StreamOf(p)}
				f, v, plan, err = r.Resolve(p, stream, d)
				assert.Must(t, err == nil, "%s: %s: %v", k.Key, p, err)
				valid(t, p, d, f, v.Config, plan)
				for _, f := range r.FamiliesFor(p) {
					a, _ := analytic.Lookup(f.Name)
					c, base := f.Base(p, d), a.Base(p, d)
					if c != base {
						mapped++
					}
					assert.Must(t, f.Refuse(p, c, d) == nil || f.Refuse(p, base, d) != nil,
						"%s: %s: %s@%s is refused, the analytic base %s is not", k.Key, p, f.Name, c,
						base)
				}
			}
		}
	}
	assert.That(t, mapped != 0, "no base is the map's")
}

// What every lookup of a program goes through allocates nothing, once its cell was asked for.
func TestLookupAllocatesNothing(t *testing.T) {
	d := devicetest.H200()
	b := families.Book(families.NewRegistry(), families.Rung(d), d)
	for _, text := range []string{"rmsnorm/fwd/4096x4096/bf16",
		"layernorm/bwd/4097x8191/bf16+bias", "rmsnorm/fwd/4096x4096/bf16+fp8"} { // the last without a raster
		p := devicetest.Problem(t, text)
		assert.Equal(t, testing.AllocsPerRun(100, func() { b.Answer(p) }), 0,
			text, "a lookup allocates", "times")
	}
}

func BenchmarkLookup(b *testing.B) {
	d := devicetest.H200()
	book := families.Book(families.NewRegistry(), families.Rung(d), d)
	p := devicetest.Problem(b, "layernorm/bwd/4097x8191/bf16+bias")
	for b.Loop() {
		book.Answer(p)
	}
}

// TestLadderHasARungForEveryDevice is the ladder, by the devices that are known without a card.
func TestLadderHasARungForEveryDevice(t *testing.T) {
	var got []string
	for _, k := range launchmap.KnownDevices() {
		err := kernels.CheckID(k.ID)
		assert.That(t, err == nil && k.Arch != "" && k.SMs >= 1 &&
			k.CacheBytes >= 1 && k.SharedPerBlock >= 48<<10, "%s: %v, %+v", k.Key, err, k)
		got = append(got, fmt.Sprint(k.Key, " ", launchmap.Ladder([]*launchmap.Map{nil, wild()},
			&k.DeviceInfo).Near))
	}
	sources := strings.Count(string(assert.File(t, "../launchmap/devices.json")), `"source": "`)
	assert.Equal(t, sources, len(got), "devices with a source")
	want := fmt.Sprint([]string{"h200 3", "h100 2", "a100 0", "b200 1", "l40s 0", "rtx5090 1"})
	assert.Equal(t, fmt.Sprint(got), want, got)
}

// TestMissingClassIsAnsweredByTheNextMap: a class that a device's own map lacks is answered by the next map's cells:
// testdata/steps.txt, by a device and a problem.
func TestMissingClassIsAnsweredByTheNextMap(t *testing.T) {
	assert.Lines(t, "testdata/steps.txt", func(input string) string {
		key, text, _ := strings.Cut(input, " ")
		i := slices.IndexFunc(launchmap.KnownDevices(), func(k launchmap.KnownDevice) bool { return k.Key == key })
		d, p := launchmap.KnownDevices()[i].DeviceInfo, devicetest.Problem(t, text)
		step := families.Rung(d)
		a := families.Book(families.NewRegistry(), step, d).Answer(p)
		assert.Equal(t, a.Match, launchmap.MatchCell, input)
		return step.ForClass(launchmap.ClassOf(p)).Map.Device.ID
	})
}

// TestWrongConfigsOfAMapAreNamed: what is wrong with a map's configs is named. Nothing is wrong with those of the maps
// that the program brings along. It looks at half of the rasters each day.
func TestWrongConfigsOfAMapAreNamed(t *testing.T) {
	m, reg := *wild(), families.NewRegistry()
	m.Rasters = slices.Clone(m.Rasters[:2])
	for i := range m.Rasters {
		m.Rasters[i].Legend = slices.Clone(m.Rasters[i].Legend)
	}
	m.Rasters[0].Legend[0].Family = "rms_fwd/gone"
	m.Rasters[1].Legend[0].Config = m.Rasters[1].Legend[0].Config.With(
		kernels.Setting{Knob: kernels.Warps, Value: 4096})
	found := strings.Join(append(m.UnknownConfigs(reg), m.RefusedConfigs(reg, m.Device)...), "\n")
	for _, want := range []string{`unknown family "rms_fwd/gone"`,
		"is refused in a part of its cells"} {
		assert.That(t, strings.Contains(found, want), "no %q in %s", want, found)
	}
	for _, k := range launchmap.KnownDevices() {
		whole := families.Rung(k.DeviceInfo).Map
		if whole == nil || whole.Device.ID != k.ID {
			continue
		}
		part := *whole
		part.Rasters = nil
		for i, x := range whole.Rasters {
			if assert.Sampled(i, 2) {
				part.Rasters = append(part.Rasters, x)
			}
		}
		found := append(whole.UnknownConfigs(reg), part.RefusedConfigs(reg, part.Device)...)
		assert.That(t, len(found) == 0, "%s: %q", k.Key, found)
	}
}

// The programs that run exported code: a problem per line of standard input, an answer per line of
// standard output.
var (
	//go:embed testdata/main.go.txt
	goMain string
	//go:embed testdata/main.py
	pythonMain string
	//go:embed testdata/main.cc
	cppMain string
)

// sampledClasses are a part-th of the classes of an element's bytes, 0 for any, all for
// `make test-all`.
func sampledClasses(bytes int64, part int) (list []launchmap.Class) {
	of := 0
	for _, c := range launchmap.Classes() {
		if bytes == 0 || c.Bytes == bytes {
			if of++; assert.Sampled(of, part) {
				list = append(list, c)
			}
		}
	}
	return list
}

// answerLine is an answer as the programs write it, with names of knobs in the words of a language.
func answerLine(v kernels.Variant, word func(string) string) string {
	var knobs []string
	for _, s := range v.Config.Settings() {
		if s.Value != 0 {
			knobs = append(knobs, fmt.Sprintf("%s=%d", word(s.Knob.Name), s.Value))
		}
	}
	slices.Sort(knobs)
	return strings.TrimSpace(v.Family + " " + strings.Join(knobs, " "))
}

// asIs and goWord are the names of knobs in code: block_rows, and BlockRows.
func asIs(name string) string { return name }

func goWord(name string) (word string) {
	for _, part := range strings.Split(name, "_") {
		word += strings.ToUpper(part[:1]) + part[1:]
	}
	return word
}

// A question is a line of the programs' input with its answer: a variant, without a family for none.
type question struct {
	text    string
	answer  kernels.Variant
	refused bool // as nothing that there is
	other   bool // what the family of the rows does not serve
}

// typeNames are those that exported code takes for a type.
var typeNames = map[kernels.DType][]string{
	kernels.BF16: {"bf16", "bfloat16", "torch.bfloat16", "BFloat16"},
	kernels.FP16: {"fp16", "float16", "torch.float16", "Half"},
	kernels.FP32: {"fp32", "float32", "torch.float32", "Float"},
}

// outside are questions without an answer, and those that are refused.
func outside() (list []question) {
	for _, sides := range []string{"0 4096", "-4 4096", "128 0", "128 -4096",
		"4 2305843009213693953", "1 63", "1 65537", "1048577 64", "1048576 4096"} {
		list = append(list, question{text: "rmsnorm fwd " + sides + " bf16 0"})
	}
	for _, text := range []string{"rmsnorm fwd 64 4096 int8 0", "rmsnorm fwd 64 4096 fp64 0", "rmsnorm fwd 64 4096 torch.int8 0",
		"rms_norm fwd 64 4096 bf16 0", "rmsnorm forward 64 4096 bf16 0", "rmsnorm fwd 64 4096 bf16 65536",
		fmt.Sprint("rmsnorm fwd 64 4096 bf16 ", 1<<len(kernels.Options()))} {
		list = append(list, question{text: text, refused: true})
	}
	return list
}

// checkCode runs exported code on questions, and has a formatter look at it where there is one.
func checkCode(t *testing.T, format string, text []byte, ask []question) {
	t.Helper()
	var file, main, command, formatter string
	word := asIs
	code := string(text)
	switch format {
	case "python":
		file, command, formatter = "main.py", "python3 main.py", "ruff check --isolated code.txt.py && "+
			"ruff format --isolated --check code.txt.py"
		main = "import sys\n" + pythonMain
	case "go":
		file, main, command, word = "main.go", goMain, "go run main.go", goWord
		code = strings.NewReplacer("package launch\n", "package main\n", "import (\n",
			"import (\n\"bufio\"\n\"os\"\n\"reflect\"\n\"slices\"\n\"strings\"\n").Replace(code)
	case "cpp":
		file, command = "main.cc", "g++ -std=c++17 -Wall -Wextra -Werror -O0 -o main main.cc && ./main"
		formatter = "clang-format --style=LLVM --dry-run --Werror code.txt.hpp"
		code = strings.Replace(code, "#pragma once", "", 1)
		fields := regexp.MustCompile(`(?m)^  int (\w+) = 0;$`).FindAllStringSubmatch(code, -1)
		slices.SortFunc(fields, func(a, b []string) int { return strings.Compare(a[1], b[1]) })
		print := ""
		for _, f := range fields {
			print += strings.ReplaceAll("if (a->F != 0) std::cout << \" F=\" << a->F;\n", "F", f[1])
		}
		main = strings.Replace(cppMain, "PRINT", print, 1)
	}
	shell := func(command string) []byte {
		var in strings.Builder
		for _, q := range ask {
			fmt.Fprintln(&in, q.text)
		}
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir, cmd.Stdin, cmd.Stderr = t.TempDir(), strings.NewReader(in.String()), os.Stderr
		assert.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, file), []byte(code+"\n"+main), 0o644))
		for _, name := range []string{"code.txt.py", "code.txt.hpp"} {
			assert.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, name), text, 0o644))
		}
		out, err := cmd.Output()
		assert.NoError(t, err, command, string(out))
		return out
	}
	if formatter != "" {
		if program := strings.Fields(formatter)[0]; exec.Command("which", program).Run() != nil {
			t.Logf("NOT TESTED: no %s here to look at exported code", program)
		} else {
			shell(formatter)
		}
	}
	if program := strings.Fields(command)[0]; exec.Command("which", program).Run() != nil {
		t.Logf("NOT TESTED: no %s here to run the exported code", program)
		return
	}
	got := strings.Split(strings.TrimSuffix(string(shell(command)), "\n"), "\n")
	assert.Must(t, len(got) == len(ask), "%s: %d answers, want %d", format, len(got), len(ask))
	for i, q := range ask {
		want := answerLine(q.answer, word)
		if q.refused {
			want = "refused"
		}
		assert.Must(t, strings.TrimSpace(got[i]) == want, "%s: %s: got %q, want %q", format, q.text, got[i], want)
	}
}

// TestExportedCodeAnswersAsTheBook runs exported code on random problems: everywhere it answers what the book answers,
// which is accepted. On the card of the map, and for some columns on another by a wild one: as a chain of
// ifs, and of more columns as data. Outside there is no answer, and what does not exist is refused. Packing
// the classes of all types takes ten seconds: `make test-all`.
func TestExportedCodeAnswersAsTheBook(t *testing.T) {
	h200, h100 := devicetest.H200(), launchmap.KnownDevices()[1].DeviceInfo
	element, columns := int64(2), []int64{99, 1024, 1536, 4096, 5000, 8191, 16384}
	var many []int64
	for i := range int64(20) {
		many = append(many, 900+i*i*37)
	}
	if assert.All {
		element = 0
	}
	for _, test := range []struct {
		name    string
		by      launchmap.Rung
		device  kernels.DeviceInfo
		columns []int64
		formats string
	}{
		{"program", families.Rung(h200), h200, nil, "python go cpp"},
		{"columns", launchmap.Ladder([]*launchmap.Map{wild()}, &h100), h100, columns, "python go cpp"},
		{"many columns", launchmap.Ladder([]*launchmap.Map{wild()}, &h100), h100, many, "python"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if testing.Short() {
				t.Skip("it compiles programs")
			}
			book := families.Book(families.NewRegistry(), test.by, test.device)
			reg, draw := families.NewRegistry(), rand.New(rand.NewPCG(38, 4))
			classes := sampledClasses(element, 8)
			ask, answered := outside(), 0
			for range draws(20000) {
				p := drawn(draw)
				if len(test.columns) > 0 && draw.IntN(3) > 0 {
					p.N = test.columns[draw.IntN(len(test.columns))]
					p.M = min(p.M, launchmap.MaxElems/p.N)
				}
				sum := int64(0)
				for i, o := range kernels.Options() {
					sum += kernels.Flag(o.IsWritten(p)) << i
				}
				names := typeNames[p.DType]
				q := question{text: fmt.Sprintln(p.Op, p.Pass, p.M, p.N, names[draw.IntN(len(names))], sum)}
				q.text = strings.TrimSpace(q.text)
				if (len(test.columns) == 0 || slices.Contains(test.columns, p.N)) &&
					slices.Contains(classes, launchmap.ClassOf(p)) {
					q.answer = book.Answer(p).Variant
					_, _, _, err := reg.Resolve(p, q.answer, test.device)
					assert.Must(t, err == nil, "%s: %v", p, err)
					answered++
				}
				ask = append(ask, q)
			}
			assert.Must(t, answered > 0, "no question has an answer")
			for _, format := range strings.Fields(test.formats) {
				text, err := book.Export(classes, test.columns, format)
				assert.NoError(t, err)
				checkCode(t, format, text, ask)
			}
			text, err := book.Export(classes, test.columns, "json")
			assert.NoError(t, err)
			checkJSON(t, text, ask)
		})
	}
}

// What a map says of itself stands in the exported code as plain text: a terminal, an editor and a C++
// compiler have nothing to act on.
func TestExportedCodeHasPlainText(t *testing.T) {
	d := devicetest.H200()
	step := families.Rung(d)
	m := *step.Map
	m.Tool, m.Protocol = "\x1b[31mv1\u202e \\", json.RawMessage(`{"name": "cold\u001b]0;x\u0007\u2028\u2066"}`)
	m.Sources = maps.Clone(m.Sources)
	for f := range m.Sources {
		m.Sources[f] = "0123\u202e\x9b?\\"
	}
	step.Map, step.Behind = &m, nil
	for _, format := range launchmap.Formats {
		text, err := launchmap.NewBook(step, d, families.New()).Export(launchmap.Classes()[:2], []int64{4096}, format)
		assert.NoError(t, err, format)
		for _, line := range strings.Split(string(text), "\n") {
			plain := strings.IndexFunc(line, func(r rune) bool { return r != '\t' && !unicode.IsGraphic(r) }) < 0
			assert.That(t, plain && utf8.ValidString(line), "%s: %q", format, line)
			assert.That(t, !strings.HasPrefix(line, "//") || !strings.HasSuffix(line, `\`), "%s: %q", format, line)
		}
		assert.That(t, strings.Contains(string(text), "normbench: v1"), "%s does not name the tool", format)
		// The first classes are of rmsnorm; folded, the others stand on a line of their own.
		assert.That(t, format == "json" || strings.Contains(string(text), "Nor is there one for layernorm, l2norm,"),
			"%s does not say for which ops it has no answer", format)
	}
}

// The analytic base of a backward with few rows is few_rows within the bounds that were measured: up to a
// quarter of the SMs at any width, up to the SMs at 8192 columns, and up to twice the SMs at 4096.
func TestFewRowsIsTheBaseWithinItsBounds(t *testing.T) {
	r, d := families.AnalyticRegistry(families.New()), devicetest.H200() // 132 SMs
	for shape, want := range map[[2]int64]bool{{33, 65536}: true, {34, 65536}: false, {132, 8192}: true,
		{132, 8200}: false, {133, 8192}: false, {264, 4096}: true, {264, 4104}: false, {265, 4096}: false} {
		p := devicetest.Problem(t, fmt.Sprintf("rmsnorm/bwd/%dx%d/bf16", shape[0], shape[1]))
		got := r.Default(p, d).Family
		assert.That(t, (got == "rms_bwd/few_rows") == want, "%s: %s", p, got)
	}
}
