package replay

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"normbench/internal/hint"
)

const foreign = `{"device_name": "GPU", "kernel_name": "conv", "tune_params_keys": ["x", "mode", "pad", "one"],
"cache": {
"a": {"x": 16, "mode": "fast", "pad": true, "one": 1, "time": 2.5},
"b": {"x": 8, "mode": "slow", "pad": false, "one": 1, "time": "RuntimeFailedConfig"},
"c": {"x": 8, "mode": "fast", "pad": true, "one": 1, "time": 1.5}`

func TestParseFree(t *testing.T) {
	t4 := `{"schema_version": "1.0.0", "results": [
{"configuration": {"x": 16, "mode": "fast"}, "objectives": ["time"], "invalidity": "correct", "measurements": [{"name": "time", "value": 2.5, "unit": "ms"}]},
{"configuration": {"x": 8, "mode": "slow"}, "objectives": ["time"], "invalidity": "runtime", "measurements": []},
{"configuration": {"x": 8, "mode": "fast"}, "objectives": ["time"], "invalidity": "correct", "measurements": [{"name": "time", "value": 1.5, "unit": "ms"}]}]}`
	for name, data := range map[string]string{"closed": foreign + "}\n}", "open": foreign + ",", "t4": t4} {
		f, err := ParseFree(name, []byte(data))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		best, valid := math.Inf(1), 0
		for _, c := range f.Configs {
			best = min(best, c.Time)
			if !math.IsInf(c.Time, 1) {
				valid++
			}
		}
		if len(f.Configs) != 3 || valid != 2 || best != 1.5 || !IsFree([]byte(data)) {
			t.Errorf("%s: %+v", name, f)
		}
		for _, k := range f.Knobs {
			if k.Name == "one" || (k.Name == "x") != (k.Values != nil) {
				t.Errorf("%s: knob %+v", name, k)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "c.json.gz")
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(foreign + "}}"))
	z.Close()
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if data, err := ReadMaybeGzip(path); err != nil || string(data) != foreign+"}}" {
		t.Error(err)
	}
	if err := os.WriteFile(path, b.Bytes()[:20], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadMaybeGzip(path); err == nil || hint.Of(err) == "" {
		t.Error("half a gzip was read:", err)
	}
	defer func(n int) { maxFile = n }(maxFile)
	maxFile = 10
	for _, text := range [][]byte{b.Bytes(), []byte(foreign)} {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadMaybeGzip(path); err == nil || hint.Of(err) == "" {
			t.Error("more was read than may be:", err)
		}
	}
}

// A space is the same from a cache and from T4 results, whatever the order of the latter.
func TestFreeSameSpace(t *testing.T) {
	cache := `{"kernel_name": "k", "tune_params_keys": ["x", "a"], "cache": {
"8,1": {"x": 8, "a": 1, "time": 1}, "16,1": {"x": 16, "a": 1, "time": 2}, "8,2": {"x": 8, "a": 2, "time": 3}}}`
	result := func(x, a int, time float64) string {
		return fmt.Sprintf(`{"configuration": {"x": %d, "a": %d}, "measurements": [{"name": "time", "value": %g}]}`, x, a, time)
	}
	one, err := ParseFree("cache", []byte(cache))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]string{{result(8, 1, 1), result(16, 1, 2), result(8, 2, 3)}, {result(8, 2, 3), result(8, 1, 1), result(16, 1, 2)}} {
		two, err := ParseFree("t4", []byte(`{"results": [`+strings.Join(list, ",")+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		one.Kernel = ""
		if !reflect.DeepEqual(one, two) {
			t.Errorf("a cache is %+v, T4 %+v", one, two)
		}
	}
}

// Each trouble is one line with a hint.
func TestParseFreeBad(t *testing.T) {
	entry := func(e string) string {
		return `{"kernel_name": "k", "tune_params_keys": ["x"], "cache": {` + e + `}}`
	}
	t4 := func(r string) string { return `{"schema_version": "1.0.0", "results": [{` + r + `}]}` }
	many := strings.Builder{}
	many.WriteString(`{"schema_version": "1.0.0", "results": [`)
	many.WriteString(strings.Repeat("{},", FreeLimit))
	many.WriteString("{}]}")
	for want, data := range map[string]string{
		`neither a kernel_tuner cache nor T4`: `{"device_name": [`,
		`schema "2.0.0" is not known`:         `{"schema_version": "2.0.0", "cache": {}}`,
		`it has no configs`:                   `{"device_name": "x"}`,
		`it has no "tune_params_keys"`:        `{"cache": {"a": {"x": 1, "time": 1}}}`,
		`entry "a": no "x"`:                   entry(`"a": {"time": 1}`),
		`entry "a": "x" is no number`:         entry(`"a": {"x": [1], "time": 1}`),
		`entry "a": no time`:                  entry(`"a": {"x": 1}`),
		`entry "a": its time is the string`:   entry(`"a": {"x": 1, "time": "12.5"}`),
		`entry "a": a time of -1`:             entry(`"a": {"x": 1, "time": -1}`),
		`entry "a": a time of 0`:              entry(`"a": {"x": 1, "time": 0}`),
		`/cache/a/time is NaN`:                entry(`"a": {"x": 1, "time": NaN}`),
		`/cache/a/x is Infinity`:              entry(`"a": {"x": -Infinity, "time": 1}`),
		`its configs have no knobs`:           t4(`"configuration": {}, "measurements": [{"name": "time", "value": 1}]`),
		`has the measurement "time" twice`:    t4(`"configuration": {"x": 1}, "measurements": [{"name": "time", "value": 1}, {"name": "time", "value": 2}]`),
		`the config "x=1" stands twice`:       t4(`"configuration": {"x": 1}, "invalidity": "compile"}, {"configuration": {"x": 2}, "measurements": [{"name": "time", "value": 1}]}, {"configuration": {"x": 1}, "invalidity": "compile"`),
		`/results/0/configuration/x stands`:   t4(`"configuration": {"x": 1, "x": 2}`),
		`the knob "x" stands twice`:           strings.Replace(entry(`"a": {"x": 1, "time": 1}`), `["x"]`, `["x", "x"]`, 1),
		`none of its 1 configs is valid`:      entry(`"a": {"x": 1, "time": "InvalidConfig"}`),
		`the config "x=2" stands twice`:       entry(`"a": {"x": 2, "time": 1}, "b": {"x": 2, "time": 2}, "c": {"x": 1, "time": 2}`),
		`the field /cache/a stands twice`:     entry(`"a": {"x": 1, "time": 1}, "a": {"x": 2, "time": 2}`),
		`it has one config`:                   entry(`"a": {"x": 1, "time": 2}`),
		`it has results of KTT`:               `{"Metadata": {"ComputeApi": "CUDA", "KttVersion": "2.1"}, "Results": []}`,
		`500001 configs, at most 500000`:      many.String(),
	} {
		_, err := ParseFree("f.json", []byte(data))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "f.json: ") || strings.Contains(err.Error(), "\n") || hint.Of(err) == "" {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func FuzzParseFree(f *testing.F) {
	f.Add([]byte(foreign))
	f.Add([]byte(foreign + "}}"))
	f.Add([]byte(strings.Replace(foreign, "2.5", "NaN", 1)))
	f.Add([]byte(strings.Replace(foreign, `"one"]`, `"one", "x"]`, 1)))
	f.Add([]byte(strings.ReplaceAll(foreign, `"x": 16`, `"x\n": 8, "x": 8`)))
	f.Add([]byte(`{"schema_version": "1.0.0", "results": [{"configuration": {"x": 1}, "measurements": [{"name": "time", "value": 1}, {"name": "time", "value": 2}]}]}`))
	f.Add([]byte(`{"schema_version": "1.0.0", "results": [{"configuration": {"x": 1, "x": 2}, "objectives": ["t"], "measurements": [{"name": "t", "value": 1}]}]}`))
	f.Add([]byte(`{"schema_version": "1.1.0", "results": [{"configuration": {}, "invalidity": "compile"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		free, err := ParseFree("x", data)
		if err != nil {
			if hint.Of(err) == "" || strings.Contains(err.Error(), "\n") {
				t.Fatalf("error %q, hint %q", err, hint.Of(err))
			}
			return
		}
		if best := free.Best(); !(best > 0) || math.IsInf(best, 1) {
			t.Fatalf("best %g", best)
		}
		for i := range free.Configs {
			free.Setting(i)
		}
	})
}
