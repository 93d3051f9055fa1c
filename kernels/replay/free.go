package replay

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"normbench/internal/durable"
	"normbench/internal/hint"
)

// A Free is a space that a file of another tuner holds: its knobs, their values and
// what was measured of each config. Nothing is assumed of what the knobs mean.
type Free struct {
	Kernel, Device string
	Knobs          []FreeKnob
	Configs        []FreeConfig
}

// A FreeKnob is a knob with the values that occur, in ascending order where they
// are numbers.
type FreeKnob struct {
	Name   string
	Labels []string
	Values []float64 // nil where a value is no number
}

// A FreeConfig is a config as indices into its knobs' values, with its time, in the
// file's unit, +Inf where it is invalid.
type FreeConfig struct {
	At   []int
	Time float64
}

// FreeLimit is the most configs of a file that are searched.
const FreeLimit = 500_000

const freeHelp = "give a cache of kernel_tuner (schema 1.0 or 1.1) or T4 results (schema 1.0), .json or .json.gz"

// maxFile bounds what is read, in bytes: a few packed ones may stand for any number.
var maxFile = 1 << 30

// ReadMaybeGzip reads a file, unpacked where it is gzip, without a byte order mark.
func ReadMaybeGzip(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, hint.Errorf("choose a file that you may read", "cache %s: %w", path, err)
	}
	defer f.Close()
	r := bufio.NewReader(f)
	help, in := "choose a file that you may read", io.Reader(r)
	if magic, _ := r.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		help = "it is damaged or cut short: pack it again with gzip"
		if in, err = gzip.NewReader(r); err != nil {
			return nil, hint.Errorf(help, "cache %s: %w", path, err)
		}
	}
	data, err := io.ReadAll(io.LimitReader(in, int64(maxFile)+1))
	switch {
	case err != nil:
		return nil, hint.Errorf(help, "cache %s: %w", path, err)
	case len(data) > maxFile:
		return nil, hint.Errorf("a cache of a million configs has some 500 MiB", "cache %s: it has more than %d MiB unpacked", path, maxFile>>20)
	}
	return bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), nil
}

// IsFree says whether data looks like a cache or T4 results, and not like records.
func IsFree(data []byte) bool {
	start := strings.TrimSpace(string(data[:min(len(data), 4096)]))
	if strings.HasPrefix(start, `{"schema":`) {
		return false // records
	}
	return IsCache([]byte(start)) || isKTT(start) || strings.HasPrefix(start, "{") &&
		(strings.Contains(start, `"schema_version"`) || strings.Contains(start, `"tune_params`) || strings.Contains(start, `"cache"`) || strings.Contains(start, `"configuration"`))
}

// isKTT says whether a file begins as the results of KTT, which are not read.
func isKTT(start string) bool {
	return strings.HasPrefix(start, "<KTT") || strings.HasPrefix(start, "<?xml") && strings.Contains(start, "KttVersion") ||
		strings.HasPrefix(start, "{") && strings.Contains(start, `"KttVersion"`)
}

// ParseFree reads a kernel_tuner cache, also one that is not closed, or T4 results.
// name is for errors.
func ParseFree(name string, data []byte) (*Free, error) {
	bad := func(format string, args ...any) (*Free, error) {
		err := fmt.Errorf(format, args...)
		return nil, hint.Errorf(cmp.Or(hint.Of(err), freeHelp), "%s: %w", name, err)
	}
	var f struct {
		Schema  string                    `json:"schema_version"`
		Device  string                    `json:"device_name"`
		Kernel  string                    `json:"kernel_name"`
		Keys    []string                  `json:"tune_params_keys"`
		Cache   map[string]jsontext.Value `json:"cache"`
		Results []struct {
			Configuration jsontext.Value `json:"configuration"`
			Objectives    []string       `json:"objectives"`
			Invalidity    string         `json:"invalidity"`
			Measurements  []struct {
				Name  string         `json:"name"`
				Value jsontext.Value `json:"value"`
			} `json:"measurements"`
		} `json:"results"`
	}
	if isKTT(strings.TrimSpace(string(data[:min(len(data), 4096)]))) {
		return bad("it has results of KTT, in a format of its own")
	}
	if err := json.Unmarshal(data, &f); err != nil {
		first := err
		if err := durable.Once(data); err != nil {
			return bad("%w", err)
		}
		// kernel_tuner appends entries with a comma behind each.
		open := strings.TrimRight(strings.TrimSpace(string(data)), ",")
		f.Cache, f.Keys = nil, nil
		if json.Unmarshal([]byte(open+"}\n}"), &f) != nil {
			return bad("neither a kernel_tuner cache nor T4: %s", oneLine(first))
		}
	}
	if !knownSchema(f.Schema) {
		return bad("schema %.80q is not known", f.Schema)
	}
	if len(f.Cache) > FreeLimit || len(f.Results) > FreeLimit {
		return bad("%w", hint.Errorf("keep a part of its configs, such as those of one value of a knob", "%d configs, at most %d are searched", max(len(f.Cache), len(f.Results)), FreeLimit))
	}
	b := freeBuilder{keys: f.Keys}
	switch {
	case len(f.Cache) > 0:
		if len(f.Keys) == 0 {
			return bad(`it has no "tune_params_keys"`)
		}
		keys := make([]string, 0, len(f.Cache))
		for k := range f.Cache {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			var e map[string]any
			if err := json.Unmarshal(f.Cache[k], &e); err != nil {
				return bad("entry %.80q: %s", k, oneLine(err))
			}
			t, err := freeTime(e["time"])
			if _, failed := e["__error__"]; failed && e["time"] == nil {
				t, err = math.Inf(1), nil
			}
			if err == nil {
				err = b.add(e, t)
			}
			if err != nil {
				return bad("entry %.80q: %w", k, err)
			}
		}
	case len(f.Results) > 0:
		for i, r := range f.Results {
			var e map[string]any
			if err := json.Unmarshal(r.Configuration, &e); err != nil {
				return bad("result %d has no configuration", i+1)
			}
			if len(b.keys) == 0 {
				b.keys = fieldNames(r.Configuration)
			}
			t := math.Inf(1)
			if r.Invalidity == "correct" || r.Invalidity == "" {
				what := "time"
				if len(r.Objectives) > 0 {
					what = r.Objectives[0]
				}
				var v any
				for _, m := range r.Measurements {
					if m.Name == what {
						if v != nil {
							return bad("result %d has the measurement %.80q twice", i+1, what)
						}
						if err := json.Unmarshal(m.Value, &v); err != nil {
							return bad("result %d: %s", i+1, oneLine(err))
						}
					}
				}
				var err error
				if t, err = freeTime(v); err != nil {
					return bad("result %d: %w", i+1, err)
				}
			}
			if err := b.add(e, t); err != nil {
				return bad("result %d: %w", i+1, err)
			}
		}
	default:
		return bad(`it has no configs under "cache" or "results"`)
	}
	if !slices.ContainsFunc(b.times, func(t float64) bool { return !math.IsInf(t, 1) }) {
		return bad("none of its %d configs is valid", len(b.times))
	}
	free, err := b.build()
	if err != nil {
		return bad("%w", err)
	}
	free.Kernel, free.Device = f.Kernel, f.Device
	return free, nil
}

// fieldNames are those of a JSON object, in its order: that of a cache's "tune_params_keys", so that one seed searches
// a space in the same way from either file.
func fieldNames(object []byte) (names []string) {
	r := jsontext.NewDecoder(bytes.NewReader(object))
	r.ReadToken()
	for r.PeekKind() == '"' {
		name, err := r.ReadToken()
		if err != nil {
			break
		}
		names = append(names, name.String()) // the next read takes the token back
		r.SkipValue()
	}
	return names
}

func knownSchema(v string) bool {
	return v == "" || strings.HasPrefix(v, "1.0") || strings.HasPrefix(v, "1.1")
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// freeTime is an entry's time, +Inf for what kernel_tuner calls an error.
func freeTime(v any) (float64, error) {
	switch t := v.(type) {
	case nil:
		return 0, fmt.Errorf("no time")
	case string:
		if _, known := errorNames[t]; known {
			return math.Inf(1), nil
		}
		return 0, fmt.Errorf("its time is the string %.80q", t)
	case float64:
		if !(t > 0) {
			return 0, fmt.Errorf("a time of %g", t)
		}
		if t >= 1e20 || math.IsInf(t, 1) { // what old versions wrote for an error
			return math.Inf(1), nil
		}
		return t, nil
	}
	return 0, fmt.Errorf("its time is no number")
}

type freeBuilder struct {
	keys  []string
	rows  [][]any
	times []float64
}

func (b *freeBuilder) add(e map[string]any, t float64) error {
	row := make([]any, len(b.keys))
	for i, k := range b.keys {
		v, ok := e[k]
		switch v.(type) {
		case float64, string, bool:
		default:
			if !ok {
				return fmt.Errorf("no %.80q", k)
			}
			return fmt.Errorf("%.80q is no number, string or bool", k)
		}
		row[i] = v
	}
	b.rows, b.times = append(b.rows, row), append(b.times, t)
	return nil
}

// build indexes the values. A knob that never changes is none.
func (b *freeBuilder) build() (*Free, error) {
	f := &Free{Configs: make([]FreeConfig, len(b.rows))}
	if len(b.keys) == 0 {
		return nil, fmt.Errorf("its configs have no knobs")
	}
	for i := range f.Configs {
		f.Configs[i].Time = b.times[i]
	}
	for k, name := range b.keys {
		if slices.Contains(b.keys[:k], name) {
			return nil, fmt.Errorf("the knob %.80q stands twice", name)
		}
		index := map[any]int{}
		var values []any
		numbers := true
		for _, row := range b.rows {
			if _, ok := index[row[k]]; !ok {
				index[row[k]] = 0
				values = append(values, row[k])
				_, n := row[k].(float64)
				numbers = numbers && n
			}
		}
		if len(values) < 2 {
			continue
		}
		slices.SortFunc(values, func(x, y any) int {
			if numbers {
				return cmp.Compare(x.(float64), y.(float64))
			}
			return cmp.Compare(fmt.Sprintf("%T%v", x, x), fmt.Sprintf("%T%v", y, y))
		})
		knob := FreeKnob{Name: name}
		for i, v := range values {
			index[v] = i
			knob.Labels = append(knob.Labels, fmt.Sprint(v))
			if numbers {
				knob.Values = append(knob.Values, v.(float64))
			}
		}
		for i, row := range b.rows {
			f.Configs[i].At = append(f.Configs[i].At, index[row[k]])
		}
		f.Knobs = append(f.Knobs, knob)
	}
	seen := make(map[string]bool, len(f.Configs))
	for i, c := range f.Configs {
		key := fmt.Sprint(c.At)
		if seen[key] {
			return nil, hint.Errorf("delete one of the two: which of them counts cannot be told", "the config %.80q stands twice", f.Setting(i))
		}
		seen[key] = true
	}
	if len(f.Configs) < 2 {
		return nil, fmt.Errorf("it has one config, and so nothing to search")
	}
	// By label, as the keys of a cache are: one seed searches a space in the same way from any file.
	order := make([]int, len(f.Configs))
	labels := make([]string, len(order))
	for i := range order {
		order[i], labels[i] = i, f.Label(i)
	}
	slices.SortStableFunc(order, func(i, j int) int { return strings.Compare(labels[i], labels[j]) })
	sorted := make([]FreeConfig, len(order))
	for i, from := range order {
		sorted[i] = f.Configs[from]
	}
	f.Configs = sorted
	return f, nil
}

// Setting is a config as name=value of each knob, with blanks between.
func (f *Free) Setting(i int) string {
	parts := make([]string, len(f.Knobs))
	for k, knob := range f.Knobs {
		parts[k] = knob.Name + "=" + knob.Labels[f.Configs[i].At[k]]
	}
	return strings.Join(parts, " ")
}

// Best is the least time of all.
func (f *Free) Best() float64 {
	best := math.Inf(1)
	for _, c := range f.Configs {
		best = min(best, c.Time)
	}
	return best
}

// Label is a config as its knobs' values, with commas between.
func (f *Free) Label(i int) string {
	parts := make([]string, len(f.Knobs))
	for k, knob := range f.Knobs {
		parts[k] = knob.Labels[f.Configs[i].At[k]]
	}
	return strings.Join(parts, ",")
}

// IsOurs says whether a cache says of which device normbench exported it. All others are
// free spaces, whatever their kernel is called.
func IsOurs(data []byte) bool { return bytes.Contains(data, []byte(`"`+KeyDevice+`"`)) }
