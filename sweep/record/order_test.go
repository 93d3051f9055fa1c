package record_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"normbench/kernels"
	"normbench/sweep/record"
)

// Only a problem itself is its equal: each field counts, those of later days too.
func TestCompareProblems(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	draw := func() (p kernels.Problem) {
		v := reflect.ValueOf(&p).Elem()
		for i := range v.NumField() {
			switch f := v.Field(i); {
			case f.Kind() == reflect.Bool:
				f.SetBool(r.IntN(2) == 0)
			case f.CanInt():
				f.SetInt(int64(r.IntN(2)))
			case f.CanUint():
				f.SetUint(uint64(r.IntN(2)))
			case f.Kind() == reflect.String:
				f.SetString([]string{"a", "b"}[r.IntN(2)])
			default:
				t.Fatalf("a field of kind %s", f.Kind())
			}
		}
		return p
	}
	ps := make([]kernels.Problem, 3000)
	for i := range ps {
		ps[i] = draw()
	}
	for i, a := range ps[1:] {
		if c := record.CompareProblems(a, ps[i]); (c == 0) != (a == ps[i]) || c != -record.CompareProblems(ps[i], a) {
			t.Fatalf("%+v and %+v compare as %d", a, ps[i], c)
		}
		// So is one that differs in a single field.
		b, n := a, r.IntN(reflect.TypeFor[kernels.Problem]().NumField())
		reflect.ValueOf(&b).Elem().Field(n).Set(reflect.ValueOf(draw()).Field(n))
		if (record.CompareProblems(a, b) == 0) != (a == b) {
			t.Fatalf("%+v and %+v compare as equal", a, b)
		}
	}
	slices.SortFunc(ps, record.CompareProblems)
	if !slices.IsSortedFunc(ps, record.CompareProblems) {
		t.Error("no order")
	}
}
