package ab

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/sweep"
)

// Pairs selects the problems for which both operands have variants, and with changed only those where these
// differ. It prints what it left out; that no problem is left is an error.
func Pairs(out *console.Console, operands []sweep.Operand, ps []kernels.Problem, info kernels.DeviceInfo,
	changed bool) (pairs []Pair, err error) {
	var missing []error
	same := 0
	for _, p := range ps {
		if err := p.CheckFits(info); err != nil {
			return nil, err
		}
		b := Pair{Problem: p}
		have := true
		for i, r := range operands {
			if b.Of[i], err = armVariants(r, p, info); err != nil {
				have, missing = false, append(missing, err)
			}
		}
		switch {
		case have && changed && slices.Equal(b.Of[0], b.Of[1]):
			same++
		case have:
			pairs = append(pairs, b)
		}
	}
	if same > 0 {
		out.NoteOnce("left out " + console.Count(same, "cell") + ": the same variant on both sides")
	}
	if len(pairs)+same == 0 {
		return nil, NoneInCommon("%w", missing[0])
	}
	for _, m := range missing {
		out.NoteOnce("left out " + m.Error())
	}
	return pairs, nil
}

// armVariants are the variants of an operand for a problem, or the error why there are none.
func armVariants(r sweep.Operand, p kernels.Problem, info kernels.DeviceInfo) ([]kernels.Variant,
	error) {
	vs, err := r.Variants(p, info)
	if len(vs) > 0 {
		return vs, nil
	}
	if err == nil {
		return nil, fmt.Errorf("%s: %s has no variant", p, r.Text)
	}
	if family, _, _ := strings.Cut(r.Text, "@"); !strings.HasPrefix(err.Error(), family) {
		err = fmt.Errorf("%s: %w", r.Text, err)
	}
	return nil, fmt.Errorf("%s: %w", p, err)
}

// NoneInCommon is the trouble of two operands that cannot be compared; the rest says what
// they have, and may know the way out.
func NoneInCommon(format string, args ...any) error {
	why := fmt.Errorf(format, args...)
	return hint.Errorf(cmp.Or(hint.Of(why), "check --shapes, --op, --pass and --dtype"),
		"the operands have no problem in common; %w", why)
}

// NewFamily is why a comparison passes whose kernels the other checkout lacks.
const NewFamily = "new family, nothing to compare"

// WithBaseline returns the pairs of whose A the other checkout, in a folder, has the family, or some of its
// families.
func WithBaseline(out *console.Console, r *kernels.Registry, folder string, pairs []Pair) (left []Pair) {
	for _, p := range pairs {
		p.Of[0] = slices.DeleteFunc(slices.Clone(p.Of[0]), func(v kernels.Variant) bool {
			_, err := r.Lookup(families.Baseline + v.Family)
			if err != nil {
				out.NoteOnce(fmt.Sprintf("%s: %s in %s", v.Family, NewFamily, folder))
			}
			return err != nil
		})
		if len(p.Of[0]) > 0 {
			left = append(left, p)
		}
	}
	return left
}
