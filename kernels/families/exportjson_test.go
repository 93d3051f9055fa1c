package families_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/launchmap"
)

// exportFile is an export as JSON, as its schema says.
type exportFile struct {
	Bounds struct {
		MMax        int64 `json:"m_max"`
		NMin        int64 `json:"n_min"`
		NMax        int64 `json:"n_max"`
		ElementsMax int64 `json:"elements_max"`
	}
	Options []struct {
		Name          string
		LaunchesAlike bool `json:"launches_alike"`
	}
	ElementBytes map[string]int64 `json:"element_bytes"`
	Configs      []struct {
		Family string
		Knobs  map[string]int
	}
	Limits []struct {
		Family, Op, Pass string
		Alone            bool
		Forms            []struct {
			Type    string
			Options []string
		}
	}
	Rasters, Others []exportRaster
}

type exportRaster struct {
	Op, Pass      string
	ElementBytes  int64 `json:"element_bytes"`
	Options       []string
	RowAlignBytes int64 `json:"row_align_bytes"`
	Bands         []struct {
		NFrom  int64   `json:"n_from"`
		MFrom  []int64 `json:"m_from"`
		Config []*int
	}
}

// answer looks a question up as the schema's description says.
func (f *exportFile) answer(op, pass string, m, n int64, dtype kernels.DType, sum int) string {
	family, line := f.lookUp(f.Rasters, op, pass, m, n, dtype.Size(), sum)
	asked := f.options(sum, m, n, true)
	for _, l := range f.Limits {
		if b := f.Bounds; m < 1 || m > b.MMax || n < b.NMin || n > b.NMax || m*n > b.ElementsMax || !l.Alone && l.Family != family {
			continue
		}
		served := l.Op == op && l.Pass == pass
		if served {
			served = false
			for _, form := range l.Forms {
				served = served || form.Type == dtype.String() && slices.Equal(form.Options, asked)
			}
		}
		switch {
		case !served && l.Alone:
			return "refused"
		case !served:
			_, line = f.lookUp(f.Others, op, pass, m, n, dtype.Size(), sum)
		}
	}
	return line
}

// options names the options of a sum, those that launch alike only if asked for.
func (f *exportFile) options(sum int, m, n int64, alike bool) []string {
	names := []string{}
	for i, o := range f.Options {
		if sum&(1<<i) != 0 && (alike || !o.LaunchesAlike) {
			names = append(names, o.Name)
		}
	}
	if slices.Contains(names, "fp8t") && (m%16 > 0 || n%128 > 0) {
		names = append(names, "uneven")
	}
	return names
}

// lookUp finds the family and the line of an answer in some rasters.
func (f *exportFile) lookUp(rasters []exportRaster, op, pass string, m, n, bytes int64, sum int) (family, line string) {
	if b := f.Bounds; m < 1 || m > b.MMax || n < b.NMin || n > b.NMax || m*n > b.ElementsMax {
		return "", ""
	}
	names := f.options(sum, m, n, false)
	align := int64(16)
	for n*bytes%align > 0 {
		align /= 2
	}
	for _, r := range rasters {
		if r.Op != op || r.Pass != pass || r.ElementBytes != bytes || r.RowAlignBytes != align || !slices.Equal(r.Options, names) {
			continue
		}
		var found *int
		for _, b := range r.Bands {
			for i, from := range b.MFrom {
				if b.NFrom <= n && from <= m {
					found = b.Config[i]
				}
			}
		}
		if found == nil {
			return "", ""
		}
		c := f.Configs[*found]
		text := c.Family
		for _, k := range slices.Sorted(maps.Keys(c.Knobs)) {
			if c.Knobs[k] != 0 {
				text += fmt.Sprintf(" %s=%d", k, c.Knobs[k])
			}
		}
		return c.Family, text
	}
	return "", ""
}

// checkJSON holds an export as JSON to its schema, and its answers to those of questions.
func checkJSON(t *testing.T, text []byte, ask []question) {
	t.Helper()
	assert.NoError(t, checkSchema(t, text))
	var file exportFile
	assert.NoError(t, json.Unmarshal(text, &file))
	for _, q := range ask {
		var op, pass, dtype string
		var m, n int64
		var sum int
		fmt.Sscan(q.text, &op, &pass, &m, &n, &dtype, &sum)
		want, x := answerLine(q.answer, asIs), kernels.E4M3
		for d, names := range typeNames {
			if slices.Contains(names, dtype) {
				x = d
			}
		}
		switch {
		case q.refused && q.answer.Family == "": // what there is not is refused by the words
			continue
		case q.refused:
			want = "refused"
		}
		got := file.answer(op, pass, m, n, x, sum)
		assert.Must(t, got == want, "json: %s: got %q, want %q", q.text, got, want)
	}
}

// checkSchema holds a JSON text to export.schema.json.
func checkSchema(t *testing.T, text []byte) error {
	var schema map[string]any
	assert.NoError(t, json.Unmarshal(assert.File(t, "../launchmap/export.schema.json"), &schema))
	assert.Equal(t, schema["$id"], any(launchmap.SchemaID))
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return err
	}
	return conforms(t, schema, value, "")
}

// conforms is the part of JSON Schema that the schema uses. It knows every word of that, or fails.
func conforms(t *testing.T, schema map[string]any, value any, at string) error {
	kind := map[reflect.Kind]string{reflect.Invalid: "null", reflect.String: "string", reflect.Bool: "boolean",
		reflect.Slice: "array", reflect.Map: "object", reflect.Float64: "number"}[reflect.ValueOf(value).Kind()]
	number, _ := value.(float64)
	if kind == "number" && number == float64(int64(number)) {
		kind = "integer"
	}
	object, _ := value.(map[string]any)
	list, _ := value.([]any)
	properties, _ := schema["properties"].(map[string]any)
	for word, rule := range schema {
		switch word {
		case "$schema", "$id", "title", "description", "properties":
		case "type":
			if kinds, several := rule.([]any); several && !slices.Contains(kinds, any(kind)) || !several && rule != any(kind) {
				return fmt.Errorf("%s is %s, not %v", at, kind, rule)
			}
		case "const":
			if value != rule {
				return fmt.Errorf("%s is %v, not %v", at, value, rule)
			}
		case "enum":
			if !slices.Contains(rule.([]any), value) {
				return fmt.Errorf("%s is %v, none of %v", at, value, rule)
			}
		case "minimum":
			if kind == "integer" && number < rule.(float64) {
				return fmt.Errorf("%s is %g", at, number)
			}
		case "required":
			for _, name := range rule.([]any) {
				if _, ok := object[name.(string)]; !ok {
					return fmt.Errorf("%s has no %s", at, name)
				}
			}
		case "items":
			for i, x := range list {
				if err := conforms(t, rule.(map[string]any), x, fmt.Sprintf("%s[%d]", at, i)); err != nil {
					return err
				}
			}
		case "additionalProperties":
			for name, x := range object {
				if properties[name] != nil {
					continue
				}
				more, ok := rule.(map[string]any)
				if !ok {
					return fmt.Errorf("%s has %s, which the schema does not know", at, name)
				}
				if err := conforms(t, more, x, at+"."+name); err != nil {
					return err
				}
			}
		default:
			t.Fatalf("the schema's word %s is not checked", word)
		}
	}
	for name, x := range object {
		if of, ok := properties[name].(map[string]any); ok {
			if err := conforms(t, of, x, at+"."+name); err != nil {
				return err
			}
		}
	}
	return nil
}

// What is no export is found by the schema.
func TestSchemaFindsWhatIsNoExport(t *testing.T) {
	d := launchmap.KnownDevices()[0].DeviceInfo
	m := *wild()
	m.Rasters = m.Rasters[:1]
	good := `"n_from":64`
	text := exportOf(t, &m, d, "json")
	assert.NoError(t, checkSchema(t, []byte(text)))
	for from, to := range map[string]string{`"pass": "fwd"`: `"pass": "up"`, `"about"`: `"abuot"`,
		`"m_from":[1`: `"m_from":[0`, `"config":[`: `"config":["a",`, `"sms":132`: `"sms":"132"`, good: `"n_from":null`,
		launchmap.SchemaID: "urn:other"} {
		assert.Must(t, strings.Contains(text, from), "no %s in %.2000s", from, text)
		assert.That(t, checkSchema(t, []byte(strings.Replace(text, from, to, 1))) != nil, "%s is taken", to)
	}
}

// exportOf is what a map answers for its classes on a device.
func exportOf(t *testing.T, m *launchmap.Map, d kernels.DeviceInfo, format string, columns ...int64) string {
	var classes []launchmap.Class
	for _, r := range m.Rasters {
		if !slices.Contains(classes, r.Class) {
			classes = append(classes, r.Class)
		}
	}
	text, err := families.Book(families.NewRegistry(), launchmap.Ladder([]*launchmap.Map{m}, &d), d).Export(classes, columns, format)
	assert.NoError(t, err)
	return string(text)
}
