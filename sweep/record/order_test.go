package record_test

import (
	"reflect"
	"slices"
	"testing"

	"normbench/kernels"
	"normbench/sweep/record"
)

// Only a problem itself is its equal: each field counts, those of later days too.
func TestCompareProblems(t *testing.T) {
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
			if c := record.CompareProblems(a, b); (c == 0) != (i == j) || c != -record.CompareProblems(b, a) {
				t.Errorf("%+v and %+v compare as %d", a, b, c)
			}
		}
	}
	slices.SortFunc(ps, record.CompareProblems)
	if !slices.IsSortedFunc(ps, record.CompareProblems) {
		t.Error("no order")
	}
}
