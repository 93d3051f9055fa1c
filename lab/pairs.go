package lab

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/sweep/ab"
	"normbench/tune/ref"
)

// Pairs are the problems that both operands have a variant for; with changed those of which it
// differs.
func (l *Lab) Pairs(refs []*ref.Ref, ps []kernels.Problem, info kernels.DeviceInfo,
	changed bool) (pairs []ab.Pair, err error) {
	var missing []error
	same := 0
	for _, p := range ps {
		if err := p.CheckFits(info); err != nil {
			return nil, err
		}
		b := ab.Pair{Problem: p}
		have := true
		for i, r := range refs {
			if b.Of[i], err = l.armVariants(r, p, info); err != nil {
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
		l.NoteOnce("left out " + console.Count(same, "cell") + ": the same variant on both sides")
	}
	if len(pairs)+same == 0 {
		return nil, NoneInCommon("%w", missing[0])
	}
	for _, m := range missing {
		l.NoteOnce("left out " + m.Error())
	}
	return pairs, nil
}

// armVariants are the variants of an operand for a problem, or the error why there are none.
func (l *Lab) armVariants(r *ref.Ref, p kernels.Problem, info kernels.DeviceInfo) ([]kernels.Variant,
	error) {
	vs, err := l.Variants(r, p, info)
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
