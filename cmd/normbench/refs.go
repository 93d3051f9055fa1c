package main

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"

	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/kernels"
	"normbench/kernels/presets"
	"normbench/report"
	"normbench/sweep/record"
	"normbench/tune"
)

const (
	refHelp      = "A REF is base, FAMILY, FAMILY@LABEL, preset:NAME, tuned:FILE, peer:NAME or peer:best"
	recordedHelp = "an operand is a records file or results folder, with #base, #peers, #FAMILY, #FAMILY@LABEL, #preset:NAME, #peer:NAME or #tuned:FILE behind it if need be, FILE.csv#COLUMN of published times, compare-RUN.json#A or #B, or tuned:FILE"
)

// A ref is a runnable operand: it names the variants that it has for a problem,
// mostly one. None come with the reason, or with no error where the problem is
// simply another.
type ref struct {
	text     string
	peer     string // the NAME of a peer:NAME, so that the peers are started
	variants func(p kernels.Problem, d kernels.DeviceInfo) ([]kernels.Variant, error)
}

// parseRef reads a runnable REF.
func (e *env) parseRef(text string) (ref, error) {
	r := ref{text: text}
	if text == "base" {
		r.variants = func(p kernels.Problem, d kernels.DeviceInfo) ([]kernels.Variant, error) {
			v, err := e.registry.Base(p, d)
			if err != nil {
				return nil, err
			}
			return []kernels.Variant{v}, nil
		}
		return r, nil
	}
	if name, ok := strings.CutPrefix(text, "peer:"); ok {
		return e.peerRef(text, name)
	}
	if name, ok := strings.CutPrefix(text, "preset:"); ok {
		preset, err := presets.Lookup(name)
		if err != nil {
			return r, err
		}
		r.variants = func(p kernels.Problem, d kernels.DeviceInfo) ([]kernels.Variant, error) {
			return preset.Variants(e.registry, p, d)
		}
		return r, nil
	}
	if path, ok := strings.CutPrefix(text, "tuned:"); ok {
		if _, err := readTuned(path); err != nil {
			return r, err
		}
		var t tunedFile
		var of kernels.DeviceInfo
		r.variants = func(p kernels.Problem, d kernels.DeviceInfo) ([]kernels.Variant, error) {
			if of != d {
				var err error
				if t, err = e.tunedFile(path, d); err != nil {
					return nil, err
				}
				if of = d; t.table.Device.ID != d.ID {
					note := fmt.Sprintf("%s is of %s, not of %s", text, t.table.Device.ID, d.ID)
					e.refNotes = append(e.refNotes, note)
					e.notef("%s", note)
				}
			}
			a, match, why := t.answer(p)
			if a.Variant.Family == "" {
				return nil, nil
			}
			if match != "exact" {
				e.notef("%s: %s: %s, %s", text, p, match, why)
				_, v, _, err := e.registry.Resolve(p, a.Variant, d)
				if err != nil {
					return nil, err
				}
				return []kernels.Variant{v}, nil
			}
			return []kernels.Variant{a.Variant}, nil
		}
		return r, nil
	}
	f, c, err := e.familyRef(text)
	if err != nil {
		return r, err
	}
	r.variants = func(p kernels.Problem, d kernels.DeviceInfo) ([]kernels.Variant, error) {
		if f.Op != p.Op || f.Pass != p.Pass {
			return nil, nil
		}
		_, v, _, err := e.registry.Resolve(p, kernels.Variant{Family: f.Name, Config: c}, d)
		if err != nil {
			return nil, err
		}
		return []kernels.Variant{v}, nil
	}
	return r, nil
}

// familyRef reads FAMILY or FAMILY@LABEL.
func (e *env) familyRef(text string) (*kernels.Family, kernels.Config, error) {
	family, label, labelled := strings.Cut(text, "@")
	if labelled && label == "" {
		return nil, kernels.Config{}, hint.Errorf("write FAMILY for its base config, or FAMILY@LABEL", "nothing stands behind the @ of %s", text)
	}
	if name, ok := kernels.PeerName(family); ok {
		return nil, kernels.Config{}, hint.Errorf("write peer:"+name, "%s is no family of ours", family)
	}
	c, err := kernels.ParseConfig(label)
	if err != nil {
		return nil, c, err
	}
	f, err := e.registry.Lookup(family)
	if err != nil {
		var names []string
		for _, f := range e.registry.Families {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		}
		return nil, c, hint.Errorf(hint.DidYouMean(family, append(names, "base"), refHelp), "unknown REF %q", text)
	}
	return f, c, nil
}

// recordedSide reads a recorded operand: records with an optional selector, or a
// tuned table.
func (e *env) recordedSide(text string) (report.Side, error) {
	if path, ok := strings.CutPrefix(text, "tuned:"); ok {
		t, err := readTuned(path)
		if err != nil {
			return report.Side{}, err
		}
		s := report.Side{Label: text, Cells: map[kernels.Problem]report.Cell{}}
		floors := map[string]float64{}
		for _, r := range t.Runs {
			floors[r.ID] = r.FloorUS
		}
		for _, x := range t.Entries {
			c := report.Cell{Variant: x.Variant(), Status: kernels.StatusOK, Run: x.Run, Kind: t.Device.Kind, FloorUS: floors[x.Run],
				MedianUS: x.MedianUS, Bytes: x.Problem.Bytes(), StreamUS: x.StreamUS}
			if len(x.CIUS) == 2 {
				c.Lo, c.Hi = x.CIUS[0], x.CIUS[1]
			}
			s.Cells[x.Problem] = c
		}
		return s, nil
	}
	path, selector, selects := strings.Cut(text, "#")
	if selects && selector == "" {
		return report.Side{}, hint.Errorf(recordedHelp, "nothing stands behind the # of %s", text)
	}
	if textfile.Ext(path) == ".csv" {
		return report.ReadPublished(path, selector)
	}
	if textfile.Ext(path) == ".json" {
		arms, err := readArms(path)
		if err != nil {
			return report.Side{}, err
		}
		for i, name := range []string{"A", "B"} {
			if selector == name {
				arms[i].Label = text
				return arms[i], nil
			}
		}
		return report.Side{}, hint.Errorf("write "+path+"#A or "+path+"#B", "%s is a live compare, which has two arms", path)
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if _, err := e.parseRef(text); err == nil {
			return report.Side{}, hint.Errorf("record it first: `normbench bench "+text+" --out DIR`, then compare DIR", "%s is not recorded, and compare takes recorded operands", text)
		}
		return report.Side{}, hint.Errorf(recordedHelp, "no records at %s", path)
	}
	f, err := e.load(path)
	if err != nil {
		return report.Side{}, err
	}
	keep, err := e.selector(selector)
	if err != nil {
		return report.Side{}, err
	}
	_, label, _ := strings.Cut(selector, "@")
	if selector == "" { // the finals chose among all there is, and not always what was fastest in them
		won := map[kernels.Problem]tune.Entry{}
		for es := range f.Latest().ByProblem() {
			for _, x := range tune.Pick(es) {
				if x.Chosen != "" {
					won[x.Problem] = x
				}
			}
		}
		return chosenSide(text, f, keep, won, false), nil
	}
	return chosenSide(text, f, keep, nil, label != "" || selector == "base" || strings.Contains(selector, ":")), nil
}

// chosenSide is the operand of the entries that keep wants; named says that they are variants
// with a name, not the best of a design, and won what the finals of a problem chose.
func chosenSide(text string, f *record.File, keep func(*record.Entry) bool, won map[kernels.Problem]tune.Entry, named bool) report.Side {
	again := map[kernels.Problem]map[kernels.Variant]bool{}
	of := func(entries *record.Entries, won map[kernels.Problem]tune.Entry) report.Side {
		configs := map[kernels.Problem]int{}
		counted := func(x *record.Entry) bool {
			ours := x.Variant.Family != record.Stream && keep(x)
			if ours && x.Status == kernels.StatusOK {
				configs[x.Problem]++
			}
			if w, ok := won[x.Problem]; ok {
				return ours && x.Variant == w.Variant() && x.Run != nil && x.Run.ID == w.Run
			}
			return ours
		}
		s := side(text, pick(entries.All(), counted))
		for p, c := range s.Cells {
			c.Configs, c.Named = max(configs[p], 1), named
			s.Cells[p] = c
		}
		return s
	}
	latest := f.Latest()
	s := of(latest, won)
	searched := of(f.Searched(), nil)
	if len(searched.Cells) == 0 {
		return s
	}
	for x := range latest.All() {
		if again[x.Problem] == nil {
			again[x.Problem] = map[kernels.Variant]bool{}
		}
		again[x.Problem][x.Variant] = true
	}
	s.Cells = report.Best(s.Cells, searched.Cells, func(p kernels.Problem, v kernels.Variant) bool { return won[p].Chosen != "" || again[p][v] })
	return s
}

// selector is what stands behind the # of a recorded operand.
func (e *env) selector(s string) (func(*record.Entry) bool, error) {
	switch s {
	case "", "peers":
		// Peers recorded beside our kernels do not count as ours.
		return func(x *record.Entry) bool {
			_, peer := kernels.PeerName(x.Variant.Family)
			return peer == (s == "peers")
		}, nil
	case "base":
		return func(x *record.Entry) bool { return x.Base }, nil
	}
	if strings.HasPrefix(s, "tuned:") || strings.HasPrefix(s, "preset:") || strings.HasPrefix(s, "peer:") {
		return e.picked(s)
	}
	family, label, exact := strings.Cut(s, "@")
	if exact && label == "" {
		return nil, hint.Errorf(recordedHelp, "nothing stands behind the @ of #%s", s)
	}
	c, err := kernels.ParseConfig(label)
	if err != nil {
		return nil, err
	}
	return func(x *record.Entry) bool {
		if x.Variant.Family != family {
			return false
		}
		if !exact {
			return true
		}
		for _, set := range c.Settings() {
			if v, ok := x.Variant.Config.Lookup(set.Knob); !ok || v != set.Value {
				return false
			}
		}
		return true
	}, nil
}

// picked selects the records of the variants that a REF runs on the records' device,
// under the same name or under another one with the same plan.
func (e *env) picked(text string) (func(*record.Entry) bool, error) {
	quiet := *e // what a map says of each problem is for those who run it
	quiet.stderr = io.Discard
	r, err := quiet.parseRef(text)
	if err != nil {
		return nil, err
	}
	if r.peer == peerBest {
		return e.selector("peers")
	}
	type at struct {
		p   kernels.Problem
		run *record.Run
	}
	type picks struct {
		variants []kernels.Variant
		plans    []string
	}
	seen := map[at]picks{}
	plan := func(p kernels.Problem, v kernels.Variant, d kernels.DeviceInfo) string {
		_, _, plan, err := e.registry.Resolve(p, v, d)
		if err != nil {
			return ""
		}
		return plan.String()
	}
	return func(x *record.Entry) bool {
		if x.Run == nil {
			return false
		}
		d := x.Run.Device
		k := at{x.Problem, x.Run}
		ours, ok := seen[k]
		if !ok {
			ours.variants, _ = r.variants(x.Problem, d) // none: there is no record of it either
			for _, v := range ours.variants {
				ours.plans = append(ours.plans, plan(x.Problem, v, d))
			}
			seen[k] = ours
		}
		if slices.Contains(ours.variants, x.Variant) {
			return true
		}
		if !slices.ContainsFunc(ours.variants, func(v kernels.Variant) bool { return v.Family == x.Variant.Family }) {
			return false
		}
		own := plan(x.Problem, x.Variant, d)
		return own != "" && slices.Contains(ours.plans, own)
	}, nil
}

// pick takes for each problem the fastest right entry that keep wants, or, where
// none is right, one that failed.
func pick(entries iter.Seq[*record.Entry], keep func(*record.Entry) bool) []record.Entry {
	at := map[kernels.Problem]int{}
	var out []record.Entry
	for x := range entries {
		if x.Variant.Family == record.Stream || !keep(x) {
			continue
		}
		i, ok := at[x.Problem]
		if !ok {
			at[x.Problem] = len(out)
			out = append(out, *x)
		} else if o := out[i]; x.Status == kernels.StatusOK && (o.Status != kernels.StatusOK || x.Median < o.Median) {
			out[i] = *x
		}
	}
	return out
}

// side makes an operand of entries.
func side(label string, entries []record.Entry) report.Side {
	s := report.Side{Label: label, Cells: map[kernels.Problem]report.Cell{}}
	for _, x := range entries {
		s.Cells[x.Problem] = report.CellOf(x)
	}
	return s
}
