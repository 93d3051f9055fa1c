package rules

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
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

const (
	refit    = "`normbench tune RECORDS --out FILE` writes it again from the records"
	relaunch = "`normbench rule REF --columns N --out FILE` writes it again"
)

// CheckValid says what no rule set can hold, or nil. It is called before every
// write and after every read. What depends on the registry is Lint's.
func (s *Set) CheckValid() error {
	switch {
	case s.Schema > Schema:
		return hint.Errorf("update normbench", "schema %d is newer than %d, the newest that this normbench reads", s.Schema, Schema)
	case s.Kind != Kind || s.Schema < 1:
		return hint.Errorf(refit, "not a rules file: kind %q, schema %d", s.Kind, s.Schema)
	case s.Device.ID == "" || s.Device.Units < 1 || s.Device.Units > 1<<16:
		return hint.Errorf(refit, "rules of no device: ID %q with %d units", s.Device.ID, s.Device.Units)
	case s.Date.IsZero() && s.Of == "":
		return hint.Errorf(refit, "rules without a date")
	case (s.Of == "") != (len(s.UpTo) == 0):
		return hint.Errorf(relaunch, "launches of %q with %d problems that they are of", s.Of, len(s.UpTo))
	case len(s.Classes) == 0:
		return hint.Errorf(refit, "rules for no class of problems")
	}
	for i := range s.Classes {
		l := &s.Classes[i]
		if i > 0 && s.Classes[i-1].compare(l.Class) >= 0 {
			return hint.Errorf(refit, "class %s stands twice or out of order", l.Class)
		}
		if err := l.checkValid(); err != nil {
			return hint.Errorf(cmp.Or(hint.Of(err), refit), "class %s: %w", l.Class, err)
		}
	}
	if s.Of != "" {
		return s.checkLaunches()
	}
	return nil
}

// checkLaunches says which problem has no rules, or which rule is not for one number of
// columns and rows up to those of the problem: exported code has nothing else to go by.
func (s *Set) checkLaunches() error {
	for _, p := range s.UpTo {
		if !slices.ContainsFunc(s.Classes, func(l List) bool { return l.Class == ClassOf(p) }) {
			return hint.Errorf(relaunch, "launches of %s without rules for it", p)
		}
	}
	for _, l := range s.Classes {
		for i, r := range l.Rules {
			b := r.Box
			if b.MOver != 0 || b.MMax != 0 || r.RowBytes != 0 || b.RowsMax == 0 || b.NOver != b.NMax-1 || !slices.ContainsFunc(s.UpTo, func(p kernels.Problem) bool {
				return ClassOf(p) == l.Class && b.NMax == p.N && b.RowsMax <= p.M
			}) {
				return hint.Errorf(relaunch, "class %s: rule %d: %s is of no problem that the launches are of", l.Class, i+1, b)
			}
		}
	}
	return nil
}

func (l *List) checkValid() error {
	h := l.Hull
	switch {
	case l.Bytes != 2 && l.Bytes != 4:
		return fmt.Errorf("elements of %d bytes", l.Bytes)
	case h.NMin < 1 || h.NMin > h.NMax || h.NMax > 1<<31 || h.MMin < 1 || h.MMin > h.MMax || h.MMax > 1<<31 || h.ElemsMax < 1:
		return fmt.Errorf("hull %s holds nothing", h)
	}
	if err := l.problem(1, 1).Validate(); err != nil {
		return err
	}
	for i := range l.Rules {
		if err := l.Rules[i].checkValid(); err != nil {
			return fmt.Errorf("rule %d: %w", i+1, err)
		}
	}
	return nil
}

func (r *Rule) checkValid() error {
	b, e := r.Box, r.Evidence
	aligned := func(a int64) bool { return a == 0 || a <= 1<<20 && a&(a-1) == 0 }
	rows := func(m int64) bool { return 0 <= m && m <= 1<<31 }
	switch {
	case b.NOver < 0 || b.NMax < 0 || b.MOver < 0 || b.MMax < 0 || !rows(b.RowsOver) || !rows(b.RowsMax) || !rows(b.RowsMultiple) || b.empty() || !aligned(b.RowAlign) || !aligned(b.RowUneven) || b.RowAlign < 0 || b.RowUneven < 0:
		return fmt.Errorf("%s: no problem can be in the box", b)
	case r.Family == "":
		return errors.New("no family")
	case e.Problems < 0 || !(e.Regret >= 0) || math.IsInf(e.Regret, 0):
		return fmt.Errorf("evidence of %d problems with a regret of %g", e.Problems, e.Regret)
	case (r.RowBytes != 0) != (len(r.Grow)+len(r.Shrink) > 0):
		return hint.Errorf("row_bytes says which width the config is for when knobs grow or shrink with the row", "row_bytes %d with %d knobs that follow the row", r.RowBytes, len(r.Grow)+len(r.Shrink))
	case r.RowBytes < 0 || r.RowBytes > 1<<34 || r.RowBytes&(r.RowBytes-1) != 0:
		return fmt.Errorf("row_bytes %d is no power of two", r.RowBytes)
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
		return nil, hint.Errorf(refit, "rules %s: %w", path, cause(err))
	}
	return Parse(path, data)
}

// Parse reads the text of a rules file. A field that it does not know is an
// error: what it says would be ignored, and the rules are someone's launches.
func Parse(name string, data []byte) (*Set, error) {
	if t := bytes.TrimSpace(data); len(t) == 0 || t[0] != '{' {
		if len(data) > textfile.Small {
			return nil, hint.Errorf(refit, "%s: YAML of more than %d MiB", name, textfile.Small>>20)
		}
		if err := yamldoc.CheckDepth(name, data, refit); err != nil {
			return nil, err
		}
		j, err := yaml.YAMLToJSON(data)
		if err != nil || len(t) == 0 {
			return nil, hint.Errorf(refit, "%s: neither JSON nor YAML", name)
		}
		data = j
	}
	if err := durable.Verify(data); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var s Set
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(&struct {
		*Set
		CRC string `json:"crc"`
	}{Set: &s})
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			err = errors.New("something stands behind the rules")
		}
	}
	var h struct{ Schema int }
	if err != nil && json.Unmarshal(data, &h) == nil && h.Schema > Schema {
		err = (&Set{Schema: h.Schema}).CheckValid() // what failed is the newer schema's
	} else if err == nil {
		err = s.CheckValid()
	}
	if err == nil {
		return &s, nil
	}
	text := strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "json: ")), " ")
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) {
		text = fmt.Sprintf("%s is no value for %q", typ.Value, strings.TrimPrefix(typ.Field, "Set."))
	}
	help := cmp.Or(hint.Of(err), refit)
	if strings.HasPrefix(text, "unknown field") {
		help = "delete the field; a rule has n_over, n_max, m_per_sm_over, m_per_sm_max, m_over, m_max, m_multiple, row_align, row_uneven, family, config, row_bytes, grow, shrink, evidence"
	}
	return nil, hint.Errorf(help, "%s: %s", name, text)
}

// JSON is the rules file as JSON.
func (s *Set) JSON() ([]byte, error) {
	if err := s.CheckValid(); err != nil {
		return nil, err
	}
	data, err := json.MarshalIndent(s, "", "  ")
	return append(data, '\n'), err
}

// YAML is the rules file as YAML, with the fields of JSON in their order.
func (s *Set) YAML() ([]byte, error) {
	data, err := s.JSON()
	if err != nil {
		return nil, err
	}
	return yaml.JSONToYAML(data)
}

// WriteFile puts data in place of an older file: readers see the old one or the
// new, never half of one. JSON gets a checksum.
func WriteFile(path string, data []byte) error {
	if json.Valid(data) {
		data = durable.SealText(data)
	}
	if err := durable.WriteFile(path, data); err != nil {
		return hint.Errorf(durable.Help(err), "%s: %w", path, cause(err))
	}
	return nil
}

// Worse says why s should not replace old, or nil: they are of another device or REF, or
// both are of the same device and kernels, and old was better on shapes held out. Rules of
// other kernels are stale, whatever they promised.
func (s *Set) Worse(old *Set) error {
	if old.Device.ID != s.Device.ID {
		return hint.Errorf("keep one rules file per device", "rules of %s do not replace rules of %s", s.Device.ID, old.Device.ID)
	}
	if old.Of != s.Of {
		return hint.Errorf("choose another --out, or use --force", "%s do not replace %s", s.what(), old.what())
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

// what says what the rules are.
func (s *Set) what() string {
	if s.Of == "" {
		return "rules fitted to records"
	}
	return "the launches of " + s.Of
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
