// Package sweep measures variants: it lays out what to measure (Tasks), how a
// time is taken (ColdProtocol), and runs it on devices (Run), one record per
// variant, appended at once.
package sweep

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/sweep/record"
)

// A Task is a problem with the variants to measure on it, all with complete
// configs.
type Task struct {
	Problem  kernels.Problem
	Base     kernels.Variant // what runs before any tuning
	Variants []kernels.Variant
	Refused  int // configs that the spaces gave a reason against
	// Keep are variants that a search always measures and never eliminates,
	// beside the base: the checked-in entry and presets. They are among Variants.
	Keep []kernels.Variant
	// Checked is the checked-in entry of the tuned table, if Entry says that there
	// is one.
	Checked kernels.Variant
	Entry   bool
}

// Add puts a variant among those that a search keeps.
func (t *Task) Add(v kernels.Variant) {
	if !slices.Contains(t.Variants, v) {
		t.Variants = append(t.Variants, v)
	}
	if v != t.Base && !slices.Contains(t.Keep, v) {
		t.Keep = append(t.Keep, v)
	}
}

// Grid lays out an exhaustive sweep: for every problem each config of each
// family that serves it, the base first. Only the families named in only take
// part, or all where it is empty; override replaces the values of knobs. A
// named family that serves none of the problems, or has all its configs refused, is an
// error, as is a knob that no family has. It ends early with ctx's error: the spaces of a GPU's problems take a
// fifth of a second each.
func Grid(ctx context.Context, r *kernels.Registry, problems []kernels.Problem, d kernels.DeviceInfo, only []string, override []kernels.Range) ([]Task, error) {
	served, runs, refusal := map[string]bool{}, map[string]bool{}, map[string]error{}
	for _, name := range only {
		if _, err := r.Lookup(name); err != nil {
			return nil, err
		}
		served[name] = false
	}
	used := map[*kernels.Knob]bool{}
	var tasks []Task
	for _, p := range problems {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := p.CheckFits(d); err != nil {
			return nil, err
		}
		base, err := r.Base(p, d)
		if err != nil {
			return nil, err
		}
		t := Task{Problem: p, Base: base}
		for _, f := range r.Serving(p) {
			if _, named := served[f.Name]; len(only) > 0 && !named {
				continue
			}
			served[f.Name] = true
			for _, k := range f.Knobs {
				used[k.Knob] = true
			}
			s := f.Space(p, d, override...)
			if len(s.Configs) > 0 {
				runs[f.Name] = true
			} else if refusal[f.Name] == nil && len(s.Refused) > 0 {
				refusal[f.Name] = f.Refuse(p, s.Refused[0].Config, d)
			}
			t.Refused += len(s.Refused)
			for _, c := range s.Configs {
				t.Variants = append(t.Variants, kernels.Variant{Family: f.Name, Config: c})
			}
		}
		// The base takes part whatever was asked for: it is what the others are
		// compared with.
		t.Variants = slices.DeleteFunc(t.Variants, func(v kernels.Variant) bool { return v == base })
		t.Variants = append([]kernels.Variant{base}, t.Variants...)
		tasks = append(tasks, t)
	}
	for _, name := range only {
		if !served[name] {
			return nil, hint.Errorf("`normbench list kernels` shows the op and pass of each family", "family %s serves none of the problems asked for", name)
		}
	}
	for _, o := range override {
		if !used[o.Knob] {
			return nil, hint.Errorf("`normbench list kernels` shows the knobs of each family", "no family in this sweep has the knob %q", o.Knob.Key)
		}
	}
	for _, name := range only {
		// The base alone would be swept. (Of overrides the values may be to blame, not the family.)
		if why := refusal[name]; !runs[name] && len(override) == 0 {
			next := cmp.Or(hint.Of(why), "`normbench list configs` shows why configs are refused")
			return nil, hint.Errorf(next, "every config of family %s is refused, at first as %w", name, why)
		}
	}
	return tasks, nil
}

// ColdProtocol is how a time is taken unless asked otherwise: before every
// sample twice the size of the device's last-level cache is moved through it,
// outside the timed interval; the first launch of a visit, which reads long after a pause,
// is dropped; the stages are timed in a pass of their own.
func ColdProtocol(d kernels.DeviceInfo, samples int) record.Protocol {
	return record.Protocol{
		Name:         "cold",
		Samples:      samples,
		Discard:      1,
		StageSamples: max(samples/2, 1),
		Flush:        2 * d.CacheBytes,
		Cold:         true,
	}
}

// WarmProtocol is ColdProtocol without the flush: it times what the caches
// hold, for comparison only.
func WarmProtocol(d kernels.DeviceInfo, samples int) record.Protocol {
	p := ColdProtocol(d, samples)
	p.Name, p.Flush, p.Cold = "warm", 0, false
	return p
}

// RotateProtocol is cold without a flush: every sample runs on another copy of
// the tensors, which together are three times the cache. Tensors so small that
// kernels.MaxRotation copies do not fill it stay warm in it.
func RotateProtocol(d kernels.DeviceInfo, samples int) record.Protocol {
	p := ColdProtocol(d, samples)
	p.Name, p.Flush, p.Rotate = "rotate", 0, true
	return p
}

// sourceHashes caches the families' source hashes for a run.
type sourceHashes map[string]string

func (h sourceHashes) of(r *kernels.Registry, family string) (string, error) {
	if s, ok := h[family]; ok {
		return s, nil
	}
	f, err := r.Lookup(family)
	if err != nil {
		return "", err
	}
	s, err := families.SourceHash(r, f)
	if f.Version != "" { // another version is other code under the same name
		sum := sha256.Sum256([]byte(s + f.Version))
		s = hex.EncodeToString(sum[:])[:len(s)]
	}
	if err == nil {
		h[family] = s
	}
	return s, err
}
