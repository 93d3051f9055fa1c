package launchrule

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/internal/yamldoc"
	"normbench/kernels"
)

const refit = "`normbench tune RECORDS --out FILE` writes it again from the records"

// A ruleError is what is wrong with a list, or a rule of it.
type ruleError struct {
	list, rule int // from 0; rule is -1 where it is the list
	class      string
	err        error
}

func (e *ruleError) Error() string { return e.where() + e.err.Error() }

func (e *ruleError) where() string {
	s := fmt.Sprintf("class %s: ", e.class)
	if e.rule >= 0 {
		s += fmt.Sprintf("rule %d: ", e.rule+1)
	}
	return s
}

func (e *ruleError) Unwrap() error { return e.err }

// CheckValid says what no rule set can hold, or nil. It is called before every
// write and after every read. What depends on the registry is Lint's.
func (s *Set) CheckValid() error {
	switch {
	case s.Schema > Schema:
		return hint.Errorf("update normbench", "schema %d is newer than %d, the newest that this normbench reads", s.Schema, Schema)
	case s.Kind != Kind || s.Schema < 1:
		return hint.Errorf(refit, "not a rules file: kind %q, schema %d", s.Kind, s.Schema)
	case s.Device.ID == "" || s.Device.SMs < 1 || s.Device.SMs > 1<<16:
		return hint.Errorf(refit, "rules of no device: ID %q with %d SMs", s.Device.ID, s.Device.SMs)
	case kernels.CheckID(s.Device.ID) != nil:
		return kernels.CheckID(s.Device.ID)
	case s.Date.IsZero() && !slices.ContainsFunc(s.Lists, func(l List) bool { return l.Origin != "" }):
		return hint.Errorf(refit, "rules without a date")
	case len(s.Lists) == 0:
		return hint.Errorf(refit, "rules for no class of problems")
	}
	for i := range s.Lists {
		l := &s.Lists[i]
		fail := func(rule int, err error) error {
			return hint.With(&ruleError{i, rule, l.Title(), err}, cmp.Or(hint.Of(err), refit))
		}
		if err := l.checkValid(); err != nil {
			return fail(-1, err)
		}
		boxes := map[Box]int{}
		for j := range l.Rules {
			r := &l.Rules[j]
			if err := r.checkValid(l); err != nil {
				return fail(j, err)
			}
			if first, ok := boxes[r.Box]; ok && r.If == l.Rules[first].If {
				return fail(j, hint.Errorf("delete one of them", "the box of rule %d, %s, once more: it is never reached", first+1, r.Box))
			} else if !ok {
				boxes[r.Box] = j
			}
		}
	}
	return nil
}

// Title is the class, with the name of a list that has one.
func (l *List) Title() string {
	if l.Name != "" {
		return fmt.Sprintf("%s (%s)", l.Class, l.Name)
	}
	return l.Class.String()
}

func (l *List) checkValid() error {
	h := l.Hull
	switch {
	case l.Bytes != 0 && l.Bytes != 2 && l.Bytes != 4:
		return fmt.Errorf("elements of %d bytes", l.Bytes)
	case l.With&l.Without != 0:
		return fmt.Errorf("no problem has %s, and has it not", strings.Join((l.With&l.Without).names(), ", "))
	case h != Hull{} && (h.NMin < 1 || h.NMin > h.NMax || h.NMax > 1<<31 || h.MMin < 1 || h.MMin > h.MMax || h.MMax > 1<<31 || h.ElemsMax < 1):
		return fmt.Errorf("hull %s holds nothing", h)
	}
	return l.Problem(1, 1).Validate()
}

func (r *Rule) checkValid(l *List) error {
	b, e := r.Box, r.Evidence
	aligned := func(a int64) bool { return 0 <= a && a <= 1<<20 && a&(a-1) == 0 }
	switch {
	case !aligned(b.RowAlign) || !aligned(b.RowUneven) || b.Empty() || slices.Min(b.numbers()) < 0 || slices.Max(b.numbers()) > 1<<50 || b.RowsMax > 1<<31:
		return fmt.Errorf("%s: no problem can be in the box", b)
	case b.Columns != "" && b.Columns != Pow2 && b.Columns != Other:
		return hint.Errorf("use pow2 or other", "columns %q", b.Columns)
	case (b.WaveLeast != 0 || b.WaveMax != 0) != (b.Cluster != 0) || b.Cluster > 16 || b.Cluster&(b.Cluster-1) != 0:
		return hint.Errorf("cluster says how many CTAs the clusters of per_cluster_least and per_cluster_max have: 1, 2, 4, 8 or 16", "cluster %d", b.Cluster)
	case r.If != "" && !slices.Contains([]string{HalfBusy, RuleBusy, Accepted, AsBusy}, r.If):
		return hint.Errorf("use "+strings.Join([]string{HalfBusy, RuleBusy, Accepted, AsBusy}, ", "), "unknown condition %q", r.If)
	case r.Then != "" && r.Then != Next && r.Then != Base:
		return hint.Errorf("use next or base", "then %q", r.Then)
	case r.Then != "" && (r.Family != "" || r.Config.String() != ""):
		return hint.Errorf("a rule runs a config, or leaves it to others", "a launch beside then %q", r.Then)
	case r.Then == "" && l.FamilyOf(r) == "":
		return errors.New("no family")
	case e.Problems < 0 || !(e.Regret >= 0) || math.IsInf(e.Regret, 0):
		return fmt.Errorf("evidence of %d problems with a regret of %g", e.Problems, e.Regret)
	case (r.RowBytes != 0) != (len(r.Grow)+len(r.Shrink) > 0):
		return hint.Errorf("row_bytes says which width the config is for when knobs grow or shrink with the row", "row_bytes %d with %d knobs that follow the row", r.RowBytes, len(r.Grow)+len(r.Shrink))
	case r.SliceBytes < 0 || r.SliceBytes > 0 && !l.Own:
		return hint.Errorf("give ctas_per_row in the config", "slice_bytes %d outside of a family's own list, which no export can say", r.SliceBytes)
	case r.RowBytes < 0 || r.RowBytes > 1<<34 || r.RowBytes&(r.RowBytes-1) != 0:
		return fmt.Errorf("row_bytes %d is no power of two", r.RowBytes)
	}
	if b.DType != "" {
		if _, err := kernels.ParseDType(b.DType); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	for _, name := range append(append([]string{}, r.Grow...), r.Shrink...) {
		k, err := kernels.ParseKnob(name)
		if err != nil {
			return err
		}
		v, ok := r.Config.Lookup(k)
		switch {
		case k.Name != name:
			return hint.Errorf("write "+k.Name, "knob %q by its key where its name belongs", name)
		case seen[name]:
			return fmt.Errorf("knob %q follows the row twice", name)
		case !ok || v > 1<<16:
			return fmt.Errorf("knob %q follows the row from the value %d", name, v)
		}
		seen[name] = true
	}
	return nil
}

// numbers are a box's bounds in whole numbers.
func (b *Box) numbers() []int64 {
	return []int64{b.NOver, b.NMax, b.RowOver, b.RowMax, b.RowAlign, b.RowUneven, b.RowsOver, b.RowsMax, b.Multiple, b.Odd, b.Cluster, b.WaveLeast, b.WaveMax, b.ElemsOver, b.ElemsMax}
}

// IsRules says whether a file's text is a rules file, right or wrong, and not a
// tuned table.
func IsRules(data []byte) bool { return kindLine.Match(data[:min(len(data), 512)]) }

// kindLine is the kind in JSON or YAML. A device has a kind too, further in.
var kindLine = regexp.MustCompile(`"kind":\s*"rules"|(?m:^kind:\s*"?rules)`)

// Read reads and checks a rules file, JSON or YAML. Errors name the file, and
// what is wrong in it.
func Read(path string) (*Set, error) {
	data, err := textfile.Read(path, textfile.Large)
	if err != nil {
		return nil, hint.Errorf(cmp.Or(hint.Of(err), refit), "rules %s: %w", path, cause(err))
	}
	return Parse(path, data)
}

// Parse reads the text of a rules file. A field that it does not know is an
// error: what it says would be ignored, and the rules are someone's launches.
func Parse(name string, data []byte) (*Set, error) {
	data, err := asJSON(name, data)
	if err != nil {
		return nil, err
	}
	if err := durable.Verify(data); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var s Set
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err = d.Decode(&struct {
		*Set
		CRC string `json:"crc"`
	}{Set: &s})
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			err = errors.New("something stands behind the rules")
		}
	}
	var h struct {
		Schema  int
		Kind    string
		Entries json.RawMessage
	}
	if err != nil && json.Unmarshal(data, &h) == nil && h.Schema > Schema {
		err = (&Set{Schema: h.Schema}).CheckValid() // what failed is the newer schema's
	} else if err == nil {
		s.todaysNames()
		if err = s.fromSchema1(); err == nil {
			err = s.CheckValid()
		}
	}
	if err == nil {
		return &s, nil
	}
	if json.Unmarshal(data, &h); h.Kind != Kind && h.Entries != nil {
		return nil, hint.Errorf("rules are what `normbench learn` and `normbench tune` write", "%s is a tuned table, and holds no rules", name)
	}
	var wrong *ruleError
	if !errors.As(err, &wrong) {
		wrong = blamed(data)
	}
	class := ""
	if wrong != nil {
		name = fmt.Sprintf("%s:%d", name, Line(data, wrong.list, wrong.rule))
		class, err = wrong.where(), hint.With(wrong.err, hint.Of(err))
	}
	text := strings.Join(strings.Fields(class+strings.TrimPrefix(err.Error(), "json: ")), " ")
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) {
		text = fmt.Sprintf("%s%s is no value for %q", class, typ.Value, typ.Field[strings.LastIndex(typ.Field, ".")+1:])
	}
	help := cmp.Or(hint.Of(err), refit)
	if strings.Contains(text, "unknown field") {
		help = "delete the field; a rule has " + strings.Join(fields, ", ")
	}
	return nil, hint.Errorf(help, "%s: %s", name, text)
}

// asJSON is the text of a rules file as JSON with the same lines.
func asJSON(name string, data []byte) ([]byte, error) {
	if t := bytes.TrimSpace(data); len(t) > 0 && t[0] == '{' {
		return data, nil
	}
	j, err := yamldoc.JSON(name, data, refit)
	if m := firstCRC.FindSubmatchIndex(j); m != nil {
		j = slices.Concat(j[:m[2]], j[m[1]:len(j)-1], []byte(","), j[m[2]:m[3]], []byte("}"))
	}
	return j, err
}

// firstCRC is the checksum of YAML, which stands first: a file that lost its end is YAML too. That of JSON is last.
var firstCRC = regexp.MustCompile(`^\n*\{("crc":"[0-9a-f]*"),`)

// blamed is the first rule of a file that cannot be decoded, or nil: a decoder of it all does not say where it was.
func blamed(data []byte) *ruleError {
	var f struct {
		Lists []struct {
			List
			Rules []json.RawMessage `json:"rules"`
		} `json:"classes"`
	}
	json.Unmarshal(data, &f) // as far as it goes
	for i, l := range f.Lists {
		for j, text := range l.Rules {
			d := json.NewDecoder(bytes.NewReader(text))
			d.DisallowUnknownFields()
			if err := d.Decode(&Rule{}); err != nil {
				return &ruleError{i, j, l.Title(), err}
			}
		}
	}
	return nil
}

// fields are the names of what a rule may have.
var fields = func() (names []string) {
	var walk func(reflect.Type)
	walk = func(t reflect.Type) {
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Anonymous {
				walk(f.Type)
				continue
			}
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			names = append(names, tag)
		}
	}
	walk(reflect.TypeFor[Rule]())
	return names
}()

// Line is where in the text of a file a list begins, or a rule of it; 1 where that is not known.
func Line(data []byte, list, rule int) int {
	if j, err := asJSON("", data); err == nil {
		data = j
	}
	d := json.NewDecoder(bytes.NewReader(data))
	depth, at, keys := 0, []int{-1, -1}, [6]string{} // lists and rules that were passed; the last keys by depth
	for {
		t, err := d.Token()
		if err != nil {
			return 1
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
			switch { // {, classes [, list {, rules [, rule {
			case keys[1] != "classes":
			case depth == 3:
				at[0], at[1] = at[0]+1, -1
			case depth == 5 && keys[3] == "rules":
				at[1]++
			}
			if at[0] == list && (rule < 0 && depth == 3 || at[1] == rule && depth == 5) {
				return 1 + bytes.Count(data[:d.InputOffset()], []byte("\n"))
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
		default:
			if k, ok := t.(string); ok && (depth == 1 || depth == 3) && bytes.HasPrefix(bytes.TrimSpace(data[d.InputOffset():]), []byte(":")) {
				keys[depth] = k
			}
		}
	}
}

// todaysNames writes the names of knobs as they are now, see kernels.ParseKnob.
func (s *Set) todaysNames() {
	for _, l := range s.Lists {
		for i := range l.Rules {
			for _, names := range [][]string{l.Rules[i].Grow, l.Rules[i].Shrink} {
				for j, name := range names {
					if k, err := kernels.ParseKnob(name); err == nil && name != k.Key {
						names[j] = k.Name
					}
				}
			}
		}
	}
}

// fromSchema1 turns what schema 1 said otherwise into what schema 2 says.
func (s *Set) fromSchema1() error {
	for i := range s.Lists {
		l := &s.Lists[i]
		switch {
		case l.Bias == nil:
		case s.Schema > 1:
			return hint.Errorf("write with and without", "class %s has the bias of schema 1", l.Class)
		case *l.Bias:
			l.With |= biasOption
		default:
			l.Without |= biasOption
		}
		l.Bias = nil
		if s.Of == "" {
			continue
		}
		// Launches were of single columns of one kind of problem, without a hull.
		for _, p := range s.UpTo {
			if l.serves(&Place{Problem: p, bytes: p.DType.Size(), options: OptionsOf(p)}) {
				l.Class, l.Hull, l.Origin = ClassOf(p), Hull{}, s.Of
				for j := range l.Rules {
					l.Rules[j].DType = p.DType.String()
				}
				break
			}
		}
	}
	var protocol bytes.Buffer
	if json.Compact(&protocol, s.Protocol) == nil {
		s.Protocol = protocol.Bytes()
	}
	if s.Schema == 1 {
		s.Schema, s.Of, s.UpTo = Schema, "", nil
	}
	return nil
}

// JSON is the rules file as JSON, with a line for each rule.
func (s *Set) JSON() ([]byte, error) {
	if err := s.CheckValid(); err != nil {
		return nil, err
	}
	type list List
	type text struct {
		*list
		Rules []string `json:"rules"`
	}
	lines, rules := make([]text, len(s.Lists)), [][]byte{}
	for i := range s.Lists {
		lines[i] = text{(*list)(&s.Lists[i]), []string{}}
		for j := range s.Lists[i].Rules {
			one, err := json.MarshalIndent(&s.Lists[i].Rules[j], "", " ")
			if err != nil {
				return nil, err
			}
			lines[i].Rules = append(lines[i].Rules, fmt.Sprintf("rule %d of them", len(rules)))
			rules = append(rules, breaks.ReplaceAll(one, []byte("$1$2$3")))
		}
	}
	data, err := json.MarshalIndent(&struct {
		*Set
		Lists []text `json:"classes"`
	}{s, lines}, "", "  ")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for i, one := range rules {
		before, after, _ := bytes.Cut(data, fmt.Appendf(nil, "%q", fmt.Sprintf("rule %d of them", i)))
		b.Write(before)
		b.Write(one)
		data = after
	}
	b.Write(data)
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// breaks are the ends of the lines of a rule: none behind { and [, none before } and ], a blank elsewhere.
var breaks = regexp.MustCompile(`([\[{])\n *|\n *([\]}])|(,)\n`)

// YAML is the rules file as YAML, with the fields of JSON in their order, and with the checksum of what is
// read from it.
func (s *Set) YAML() ([]byte, error) {
	data, err := s.JSON()
	if err != nil {
		return nil, err
	}
	text, err := yaml.JSONToYAML(data)
	if err != nil {
		return nil, err
	}
	const help = "write JSON: it may be larger"
	read, err := yamldoc.JSON("the rules", text, help)
	var compact, crc = bytes.Buffer{}, struct{ CRC string }{}
	if err == nil {
		err = json.Compact(&compact, read)
	}
	if err == nil {
		err = json.Unmarshal(durable.Seal(compact.Bytes()), &crc)
	}
	if err != nil {
		return nil, hint.With(err, help)
	}
	text = fmt.Appendf(nil, "crc: %q\n%s", crc.CRC, text)
	return text, hint.With(yamldoc.Check("the rules", text), help)
}

// WriteFile puts data in place of an older file: readers see the old one or the
// new, never half of one. JSON gets a checksum; YAML has one.
func WriteFile(path string, data []byte) error { return WritePlace(durable.Place{Name: path}, data) }

// WritePlace is WriteFile for a place.
func WritePlace(p durable.Place, data []byte) error {
	if json.Valid(data) {
		data = durable.SealText(data)
	}
	if err := p.WriteFrom(bytes.NewReader(data)); err != nil {
		return hint.Errorf(durable.Help(err), "%s: %w", p, cause(err))
	}
	return nil
}

// Worse says why s should not replace old, or nil: they are of another device, or
// both are of the same device and kernels, and old was better on shapes held out. Rules of
// other kernels are stale, whatever they promised.
func (s *Set) Worse(old *Set) error {
	if old.Device.ID != s.Device.ID {
		return hint.Errorf("keep one rules file per device", "rules of %s do not replace rules of %s", s.Device.ID, old.Device.ID)
	}
	for f, h := range old.Sources {
		if now, ok := s.Sources[f]; ok && now != h {
			return nil
		}
	}
	for _, o := range old.HeldOut {
		if o.Chooser != ChooserRules || o.Held != HeldShape {
			continue
		}
		found := false
		for _, n := range s.HeldOut {
			if n.Class == o.Class && n.Chooser == o.Chooser && n.Held == o.Held {
				found = true
				if n.Regret > o.Regret+worseBy && n.Shapes <= o.Shapes {
					return hint.Errorf("--force replaces it all the same", "the rules there are better: regret %.3f held out on %s, against %.3f", o.Regret, o.Class, n.Regret)
				}
			}
		}
		if !found {
			return hint.Errorf("give the records of all classes together, or use --force", "the rules there also have %s, which these records have not", o.Class)
		}
	}
	return nil
}

// worseBy is the difference of two regrets that counts: less is rounding.
const worseBy = 0.001

// cause is err without the operation and path that a *fs.PathError repeats.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
