package record_test

import (
	"reflect"
	"slices"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/sweep/record"
)

// Only a problem itself is its equal: each field counts, those of later days too.
func TestOnlyAProblemItselfIsItsEqual(t *testing.T) {
	ps := make([]kernels.Problem, 1+reflect.TypeFor[kernels.Problem]().NumField())
	for i := range ps[1:] {
		switch f := reflect.ValueOf(&ps[i+1]).Elem().Field(i); {
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		case f.CanInt():
			f.SetInt(1)
		case f.CanUint():
			f.SetUint(1)
		case f.Kind() == reflect.String:
			f.SetString("a")
		default:
			t.Fatalf("a field of kind %s", f.Kind())
		}
	}
	for i, a := range ps {
		for j, b := range ps {
			c := record.CompareProblems(a, b)
			assert.That(t, (c == 0) == (i == j) && c == -record.CompareProblems(b, a),
				"%+v and %+v compare as %d", a, b, c)
		}
	}
	slices.SortFunc(ps, record.CompareProblems)
	assert.That(t, slices.IsSortedFunc(ps, record.CompareProblems), "no order")
}
