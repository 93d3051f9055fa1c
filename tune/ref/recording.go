package ref

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/kernels"
	"normbench/sweep/record"
)

// tunedForm begins an operand that is a tuned table's file.
const tunedForm = "tuned:"

// A Recording is an operand whose times are recorded: in records, or in a tuned table.
type Recording struct {
	Text  string
	Path  string
	Tuned bool // Path is a tuned table
	All   bool // no selector stands behind the path
	Bases bool // the selector is of bases or defaults
	// Family is the selector's, "" of another one.
	Family string
	Keeps  func(*record.Outcome) bool // says whether an outcome is of the operand; nil of a tuned table
}

// ParseRecording reads an operand of a recorded compare: tuned:FILE, PATH or PATH#SELECTOR.
func (s *Resolver) ParseRecording(text string) (r Recording, err error) {
	r.Text = text
	if r.Path, r.Tuned = strings.CutPrefix(text, tunedForm); r.Tuned {
		return r, nil
	}
	path, selector, selects := strings.Cut(text, "#")
	switch {
	case selects && selector == "":
		return r, hint.Errorf(record.OperandHelp, "nothing stands behind the # of %s", text)
	case textfile.Ext(path) == ".json":
		if _, err := textfile.Read(path, textfile.Large); hint.Of(err) != "" {
			return r, fmt.Errorf("%s: %w", path, err)
		}
		return r, hint.Errorf("`normbench report "+path+"` prints its table",
			"%s is a live compare, and no operand of another", path)
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if _, err := s.Parse(text); err == nil {
			help := "record it first: `normbench bench " + text + " --out DIR`, then compare DIR"
			return r, hint.Errorf(help, "%s is not recorded, and compare takes recorded operands", text)
		}
		return r, hint.Errorf(record.OperandHelp, "no records at %s", path)
	}
	r.Path = path
	return r, r.parseSelector(selector)
}

// parseSelector reads the selector behind the # of a recorded operand.
func (r *Recording) parseSelector(text string) error {
	switch text {
	case "", "peers", "peer:" + Best:
		// Peers recorded beside our kernels do not count as ours.
		r.All, r.Keeps = text == "", func(x *record.Outcome) bool {
			_, peer := kernels.PeerName(x.Variant.Family)
			return peer == (text != "") && x.Rivals()
		}
		return nil
	case "base":
		r.Bases, r.Keeps = true, func(x *record.Outcome) bool { return x.Base }
		return nil
	case "default":
		r.Bases, r.Keeps = true, func(x *record.Outcome) bool { return x.Default }
		return nil
	}
	family, c, err := parseVariant("#"+text, record.OperandHelp)
	if err != nil {
		return err
	}
	family = strings.TrimPrefix(family, "#")
	if name, ok := strings.CutPrefix(family, "peer:"); ok {
		family = kernels.PeerVariant(name).Family
	}
	r.Family, r.Keeps = family, func(x *record.Outcome) bool {
		return x.Variant.Family == family && !slices.ContainsFunc(c.Settings(),
			func(set kernels.Setting) bool {
				v, ok := x.Variant.Config.Lookup(set.Knob)
				return !ok || v != set.Value
			})
	}
	return nil
}
