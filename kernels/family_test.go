package kernels_test

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
)

func set(k *kernels.Knob, v int) kernels.Setting { return kernels.Setting{Knob: k, Value: v} }

// toy is a family small enough to write its space down. Tiles of br rows go to
// k CTAs per SM, or one each; four rows are refused.
func toy() *kernels.Family {
	return &kernels.Family{
		Name: "toy", Op: kernels.RMSNorm, Pass: kernels.Fwd,
		Knobs: []kernels.Range{
			kernels.Values(kernels.BlockRows, 1, 2, 4),
			kernels.Values(kernels.Warps, 4, 8),
			kernels.Values(kernels.PerSM, 0, 2),
		},
		Serves: func(p kernels.Problem) error {
			if p.Bias {
				return errors.New("no bias")
			}
			return nil
		},
		Base: func(kernels.Problem, kernels.DeviceInfo) kernels.Config {
			return kernels.NewConfig(set(kernels.BlockRows, 2), set(kernels.Warps, 8),
				set(kernels.PerSM, 0))
		},
		Refuse: func(_ kernels.Problem, c kernels.Config, _ kernels.DeviceInfo) error {
			if c.Get(kernels.BlockRows) == 4 {
				return errors.New("four rows do not fit")
			}
			return nil
		},
		Plan: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			ctas := int(p.M) / c.Get(kernels.BlockRows)
			if k := c.Get(kernels.PerSM); k > 0 {
				ctas = min(ctas, k*d.SMs)
			}
			return kernels.Plan{Launches: []kernels.Launch{{
				Stage: "k1", Entry: "toy", Grid: [3]int{ctas, 1, 1}, Block: 32 * c.Get(
					kernels.Warps),
				Defines: []kernels.Define{{Name: "BLOCK_ROWS",
					Value: int64(c.Get(kernels.BlockRows))}},
			}}}
		},
	}
}

// A space has the base first, without what is refused or an alias: testdata/space.txt. The cpu keeps
// warps at their base; an override replaces a range, and reaches what the cpu would keep.
func TestSpaceHasTheBaseFirstAndNoAlias(t *testing.T) {
	// Eight rows on two SMs: with br2 the four CTAs of k2 are one per
	// tile, so k2 is k0 again.
	p := devicetest.Problem(t, "rmsnorm/fwd/8x64/bf16")
	var got strings.Builder
	for _, test := range []struct {
		kind     string
		override []kernels.Range
	}{
		{kernels.KindCUDA, nil},
		{kernels.KindCPU, nil},
		{kernels.KindCUDA, []kernels.Range{kernels.Values(kernels.Warps, 16),
			kernels.Values(kernels.PerSM, 0)}},
		{kernels.KindCPU, []kernels.Range{kernels.Values(kernels.Warps, 4),
			kernels.Values(kernels.BlockRows, 1), kernels.Values(kernels.PerSM, 0)}},
		{kernels.KindCPU, []kernels.Range{kernels.Values(kernels.ReduceRows, 1, 2, 3)}},
	} {
		d := kernels.DeviceInfo{Kind: test.kind, SMs: 2}
		s := toy().Space(p, d, test.override...)
		got.WriteString(test.kind)
		for _, o := range test.override {
			fmt.Fprintf(&got, " %s=%v", o.Knob.Key, o.Values)
		}
		fmt.Fprintln(&got, ":", s.Configs)
		for _, r := range s.Refused {
			fmt.Fprintf(&got, "  %s: %s\n", r.Config, r.Reason)
		}
		fast, n := toy().Configs(p, d, test.override...)
		assert.That(t, slices.Equal(fast, s.Configs) && n == len(s.Refused),
			"without reasons %q and %d refused", fast, n)
	}
	assert.Golden(t, "testdata/space.txt", got.String())
}

// What a registry of one visible family has for a problem, and makes of a variant whose config is a part:
// testdata/registry.txt.
func TestRegistryFillsPartOfAConfig(t *testing.T) {
	hidden := toy()
	hidden.Name, hidden.Hidden = "toy/hidden", true
	r := &kernels.Registry{Families: []*kernels.Family{hidden, toy()},
		Default: func(p kernels.Problem, d kernels.DeviceInfo) kernels.Variant {
			return kernels.Variant{Family: "toy", Config: toy().Base(p, d)}
		}}
	assert.Lines(t, "testdata/registry.txt", func(input string) string {
		text, variant, _ := strings.Cut(input, " ")
		p, d := devicetest.Problem(t, text), kernels.DeviceInfo{SMs: 2}
		if variant == "" {
			v, err := r.Base(p, d)
			assert.NoError(t, err)
			names := "families:"
			for _, f := range r.FamiliesFor(p) {
				names += " " + f.Name
			}
			return fmt.Sprint(names, ", base ", v)
		}
		f, v, plan, err := r.Resolve(p, devicetest.Variant(t, variant), d)
		if err != nil {
			return assert.Refusal(t, err)
		}
		return fmt.Sprint(f.Name, " ", v, " ", plan.Launches[0].Grid)
	})
}

// leaves are the numbers, texts and switches in a value, by their names.
func leaves(name string, v reflect.Value, all map[string]reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			leaves(name+"."+v.Type().Field(i).Name, v.Field(i), all)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			leaves(fmt.Sprint(name, i), v.Index(i), all)
		}
	default:
		all[name] = v
	}
}

// Two plans that differ anywhere must differ in their text, by which Space finds aliases. Only what the
// source or the kind of an argument decides is not in it.
func TestPlanStringHoldsEverything(t *testing.T) {
	make := func() kernels.Plan {
		return kernels.Plan{
			Scratch: []kernels.Scratch{{Name: "s", DType: kernels.FP32, Elems: 8}},
			Rounds:  []kernels.Rounding{{Output: "dw", DType: kernels.BF16}},
			Launches: []kernels.Launch{{
				Stage: "k1", Source: "a.cu", Entry: "a", Grid: [3]int{1, 2, 3}, Block: 32, Shared: 4,
				Options: []string{"o"}, Include: []string{"i"}, Params: []string{"p"},
				Defines: []kernels.Define{{Name: "D", Value: 1}},
				Args: []kernels.Arg{{Kind: kernels.ArgBuffer, Name: "x"}, kernels.Int64("rows", 5),
					kernels.Float32("eps", 1e-5), {Kind: kernels.ArgInt8, Name: "n", Int: 1},
					{Kind: kernels.ArgFloat64, Name: "d", Float: 1}},
			}},
		}
	}
	one, other := make(), make()
	want := one.String()
	assert.Must(t, other.String() == want, "equal plans print %q and %q", want, other.String())
	fields := map[string]reflect.Value{}
	leaves("", reflect.ValueOf(&other).Elem(), fields)
	none := regexp.MustCompile(`Mangled|Args([04].Int|[013].Float|2.Int)$`)
	for name, v := range fields {
		was := reflect.ValueOf(v.Interface())
		switch {
		case none.MatchString(name):
			continue
		case v.Kind() == reflect.String:
			v.SetString("another")
		case v.Kind() == reflect.Bool:
			v.SetBool(true)
		case v.CanFloat():
			v.SetFloat(v.Float() * (1 + 0x1p-23))
		case v.CanInt():
			v.SetInt(v.Int() + 1)
		default:
			v.SetUint(v.Uint() + 1)
		}
		assert.That(t, other.String() != want, "another %s prints the same:\n%s", name, want)
		v.Set(was)
	}
	assert.Equal(t, one.ScratchBytes(), 32, "8 fp32 of scratch", "bytes")
}
