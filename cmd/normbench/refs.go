package main

import (
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/report"
	"normbench/tune/ref"
)

// parseRefs reads operands to run.
func (e *env) parseRefs(texts ...string) (refs []*ref.Ref, err error) {
	for _, text := range texts {
		r, notes, err := e.scope().Parse(text)
		if e.Once(notes...); err != nil {
			return nil, err
		}
		refs = append(refs, &r)
	}
	return refs, nil
}

// variants are those of a REF for a problem.
func (e *env) variants(r *ref.Ref, p kernels.Problem, d kernels.DeviceInfo) ([]kernels.Variant, error) {
	vs, notes, err := e.scope().Variants(r, p, d)
	e.Once(notes...)
	return vs, err
}

// recorded reads a recorded operand.
func (e *env) recorded(text string) (report.Side, error) {
	s, notes, err := e.scope().Side(text)
	e.Once(notes...)
	return s, err
}

// tuned reads a tuned table for a device; the empty path is the program's own map.
func (e *env) tuned(path string, d kernels.DeviceInfo) (*ref.Table, error) {
	t, err := e.scope().Tuned(path, d)
	if err == nil {
		e.Once(t.Notes...)
	}
	return t, err
}

// scope is what operands are resolved in, with the registry as it is now.
func (e *env) scope() *ref.Scope {
	e.refs.Registry = e.registry
	return &e.refs
}

// noProblem is the trouble of having nothing to show.
func noProblem(what string) error {
	return hint.Errorf("check --shapes, --op, --pass and --dtype", "%s serves none of the problems asked for", what)
}
