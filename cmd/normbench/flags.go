package main

import (
	"cmp"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/shapes"
)

// The flags that several commands share, in groups, and what they mean.

var problemFlags = join([]cli.Flag{
	&cli.StringFlag{Name: "shapes", Category: catWhat, Usage: "`GROUP`, FILE#GROUP, FILE, MxN, or several with commas; GROUP@fp16 or GROUP@fp8 is of that type (default: smoke on a cpu, default on a GPU)"},
}, classFlags, optionFlags)

var (
	allOps, byDefault = kernels.OpNames()
	defaultOps        = strings.Join(byDefault, ",")
)

// classFlags are what is done to a shape, and in which type.
var classFlags = []cli.Flag{
	&cli.StringFlag{Name: "op", Category: catWhat, Usage: strings.Join(allOps, ", ") + ", or several", Value: defaultOps},
	&cli.StringFlag{Name: "pass", Category: catWhat, Usage: "fwd, bwd, or both", Value: "fwd,bwd"},
	&cli.StringFlag{Name: "dtype", Category: catWhat, Usage: "type of x, y, dy and dx: bf16, fp16, fp32, or several", Value: "bf16"},
}

// optionFlags are what a problem has besides its shape and type.
var optionFlags = func() []cli.Flag {
	flags := []cli.Flag{&cli.StringFlag{Name: "weight-dtype", Category: catWhat,
		Usage: "type of w, b, dw and db (default: as --dtype)"}}
	for _, o := range kernels.Options() {
		switch {
		case o.Doc == "": // another value of a flag above
		case len(o.Values) > 0:
			flags = append(flags, &cli.StringFlag{Name: o.Flag, Category: catWhat, Usage: o.Doc, Value: o.Values[0]})
		default:
			flags = append(flags, &cli.BoolFlag{Name: o.Flag, Category: catWhat, Usage: o.Doc})
		}
	}
	return flags
}()

var deviceFlags = []cli.Flag{
	&cli.StringFlag{Name: "device", Category: catWhere, Usage: "auto, cpu, cuda, cuda:N, cuda:N,cuda:M, or replay:RECORDS to draw from recorded times", Value: "auto"},
	&cli.StringSliceFlag{Name: "worker", Category: catWhere, Usage: "`COMMAND` that starts a worker, such as 'ssh gpu1 normbench worker --device cuda:0'; no shell runs it; may repeat"},
	&cli.DurationFlag{Name: "timeout", Category: catWhere, Usage: "longest time that a worker may take for one step", Value: time.Minute},
}

var measureFlags = []cli.Flag{
	&cli.IntFlag{Name: "samples", Usage: "cold samples per variant", DefaultText: "7 on a cpu, 20 on a GPU"},
	warmFlag, rotateFlag,
}

var (
	warmFlag   = &cli.BoolFlag{Name: "warm", Usage: "do not flush the cache before a sample; warm times compare with warm times only"}
	rotateFlag = &cli.BoolFlag{Name: "rotate", Usage: "use other tensors for every sample, so that they are cold without a flush"}
)

var seedFlag = &cli.Uint64Flag{Name: "seed", Usage: "seed of the inputs", DefaultText: "a fresh one, recorded"}

var formatFlag = &cli.StringFlag{Name: "format", Category: catOutput, Usage: "text, markdown, csv or json", Value: "text"}

func join(groups ...[]cli.Flag) []cli.Flag { return slices.Concat(groups...) }

// splitList cuts a comma-separated flag and refuses values that are not among
// those there are.
func splitList(name, value string, among ...string) ([]string, error) {
	var list []string
	for _, v := range strings.Split(value, ",") {
		if !slices.Contains(among, v) {
			return nil, hint.Errorf("use "+strings.Join(among, " or ")+", or several with commas", "unknown %s %q", name, v)
		}
		if !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list, nil
}

// checkProblems finds what is wrong with the problem flags before a device is
// opened, which may take a while.
func checkProblems(c *cli.Context) error {
	_, err := problems(c, kernels.DeviceInfo{})
	return err
}

// problems are those of --shapes and of what else the flags say.
func problems(c *cli.Context, info kernels.DeviceInfo) ([]kernels.Problem, error) {
	arg := c.String("shapes")
	if !c.IsSet("shapes") {
		arg = "default"
		if info.Kind == kernels.KindCPU {
			arg = "smoke"
		}
	}
	// Items of one type stand together, in the order in which the types come.
	var types []string
	items := map[string][]string{}
	for item := range strings.SplitSeq(arg, ",") {
		shape, as := strings.TrimSpace(item), ""
		if i := strings.LastIndexByte(shape, '@'); i >= 0 && !strings.ContainsRune(shape[i:], filepath.Separator) {
			shape, as = shape[:i], shape[i+1:]
			if _, err := kernels.ParseDType(as); err != nil && as != "fp8" && as != "fp8t" {
				return nil, hint.Errorf("write GROUP@TYPE, with fp16, bf16, fp32, fp8 or fp8t", "unknown type %q of shapes %q", as, item)
			}
		}
		if items[as] == nil {
			types = append(types, as)
		}
		items[as] = append(items[as], shape)
	}
	var ps []kernels.Problem
	seen := map[kernels.Problem]bool{}
	for _, as := range types {
		list, err := shapes.Select(strings.Join(items[as], ","))
		if err != nil {
			return nil, err
		}
		more, err := crossed(c, list, as)
		if err != nil {
			return nil, err
		}
		for _, p := range more {
			if !seen[p] {
				seen[p] = true
				ps = append(ps, p)
			}
		}
	}
	return ps, nil
}

// crossed are shapes with ops, passes, dtypes and options. as is a dtype or a quantization, and
// replaces that flag's value.
func crossed(c *cli.Context, list []shapes.Shape, as string) ([]kernels.Problem, error) {
	dtype, quant := cmp.Or(c.String("dtype"), "bf16"), cmp.Or(c.String("quant"), "none")
	if as == "fp8" || as == "fp8t" {
		quant = as
	} else if as != "" {
		dtype = as
	}
	ops, err := splitList("op", cmp.Or(c.String("op"), defaultOps), allOps...)
	if err != nil {
		return nil, err
	}
	passes, err := splitList("pass", cmp.Or(c.String("pass"), "fwd,bwd"), string(kernels.Fwd), string(kernels.Bwd))
	if err != nil {
		return nil, err
	}
	bias := c.String("bias")
	if !slices.Contains(valuesOf("bias"), bias) {
		return nil, hint.Errorf("use auto, yes or no", "unknown --bias %q", bias)
	}
	quants, err := splitList("quant", quant, valuesOf("quant")...)
	if err != nil {
		return nil, err
	}
	var ps []kernels.Problem
	seen := map[kernels.Problem]bool{} // --dtype may name one twice
	for _, name := range strings.Split(dtype, ",") {
		d, err := kernels.ParseDType(name)
		if err != nil {
			return nil, err
		}
		w := d
		if name := c.String("weight-dtype"); name != "" {
			if w, err = kernels.ParseDType(name); err != nil {
				return nil, err
			}
		}
		for _, op := range ops {
			for _, pass := range passes {
				for _, s := range list {
					for _, q := range quants {
						if q != "none" && pass == string(kernels.Bwd) {
							continue // a backward's outputs are gradients
						}
						p := kernels.Problem{Op: kernels.Op(op), Pass: kernels.Pass(pass), M: s.M, N: s.N, DType: d, Weight: w}
						setOptions(&p, bias, q, c.Bool)
						if err := p.Validate(); err != nil {
							return nil, err
						}
						if !seen[p] {
							seen[p] = true
							ps = append(ps, p)
						}
					}
				}
			}
		}
	}
	if len(ps) == 0 {
		return nil, hint.Errorf("use --pass fwd, or leave out --quant", "no problems: fp8 outputs belong to the forward")
	}
	return ps, nil
}

// valuesOf are the values of an option's flag, the default first; none of a switch.
func valuesOf(flag string) (values []string) {
	for _, o := range kernels.Options() {
		if o.Flag == flag {
			values = append(values, o.Values...)
		}
	}
	return values
}

// setOptions turns on the options that flags ask for and p's pass takes.
func setOptions(p *kernels.Problem, bias, quant string, given func(flag string) bool) {
	auto := bias == "auto" && p.Op.Spec().Bias && !given("no-weight")
	for _, o := range kernels.Options() {
		on := len(o.Values) == 0 && given(o.Flag) && (o.Pass == "" || o.Pass == p.Pass)
		if on || o.Name == quant || o.Name == "bias" && (auto || bias == "yes") {
			o.Set(p)
		}
	}
}

// protocol is how the flags want times taken.
func protocol(c *cli.Context, info kernels.DeviceInfo) (record.Protocol, error) {
	n := c.Int("samples")
	switch {
	case n < 0 || n > 100_000 || c.IsSet("samples") && n == 0:
		return record.Protocol{}, hint.Errorf("use 1 to 100000; 6 give a confidence interval", "--samples %d is out of range", n)
	case n == 0 && info.Kind == kernels.KindCPU:
		n = 7
	case n == 0:
		n = 20
	}
	return cacheProtocol(c, info, n)
}

// cacheProtocol is cold by a flush, or what --rotate or --warm ask for.
func cacheProtocol(c *cli.Context, info kernels.DeviceInfo, samples int) (record.Protocol, error) {
	warm, rotate := c.Bool("warm"), c.Bool("rotate")
	switch {
	case warm && rotate:
		return record.Protocol{}, hint.Errorf("leave one of them out", "--warm and --rotate exclude each other")
	case warm:
		return sweep.WarmProtocol(info, samples), nil
	case rotate:
		return sweep.RotateProtocol(info, samples), nil
	}
	return sweep.ColdProtocol(info, samples), nil
}

// seed is the seed of the flags, or a fresh one.
func seed(c *cli.Context) uint64 {
	if c.IsSet("seed") {
		return c.Uint64("seed")
	}
	return rand.Uint64() >> 11 // whole in a JSON number
}

// knobOverrides reads --knob KEY=V,V flags.
func knobOverrides(list []string) ([]kernels.Range, error) {
	const help = "write --knob w=4,8,16; `normbench list knobs` names the keys"
	var ranges []kernels.Range
	for _, s := range list {
		key, values, ok := strings.Cut(s, "=")
		if !ok {
			return nil, hint.Errorf(help, "malformed --knob %q", s)
		}
		k, err := kernels.ParseKnob(key)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(ranges, func(r kernels.Range) bool { return r.Knob == k }) {
			return nil, hint.Errorf(help, "--knob %s stands twice", key)
		}
		r := kernels.Range{Knob: k}
		for _, v := range strings.Split(values, ",") {
			n, err := strconv.Atoi(v)
			if err != nil || n < 0 {
				return nil, hint.Errorf(help, "malformed value %q in --knob %q", v, s)
			}
			r.Values = append(r.Values, n)
		}
		ranges = append(ranges, r)
	}
	return ranges, nil
}
