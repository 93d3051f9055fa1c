package manifest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
)

// Todo stands in a manifest where its writer has to know.
const Todo = "TODO"

// certain are names of parameters that mean one thing in all norms, with what they are given. Sizes with
// names such as N or C are not among them.
var certain = map[string]string{
	"x": "x", "inp": "x", "input": "x", "y": "y", "out": "y", "output": "y",
	"w": "w", "weight": "w", "gamma": "w", "bias": "b", "beta": "b", "mean": "mean", "rstd": "rstd",
	"invvar": "rstd", "inv_variance": "rstd", "inv_var": "rstd",
	"dy": "dy", "dout": "dy", "grad_output": "dy", "dx": "dx", "dinp": "dx", "grad_input": "dx",
	"dw": "dw", "dweight": "dw", "grad_gamma": "dw", "dgamma": "dw",
	"dbias": "db", "grad_beta": "db", "dbeta": "db",
	"eps": "eps", "epsilon": "eps", "hidden_size": "N", "hidden_dim": "N", "num_cols": "N", "cols": "N",
	"n_cols": "N", "ncols": "N", "elems_per_row": "N", "row_size": "N",
	"num_tokens": "M", "num_rows": "M", "rows": "M", "n_rows": "M", "nrows": "M",
	"residual": "res", "res_out": "resout", "residual_out": "resout",
}

// gradients are those of certain that only a backward has.
var gradients = []string{"dy", "dx", "dw", "db"}

// numberTypes are the types of arguments by those of C.
var numberTypes = map[string]string{
	"int": "int32", "int32_t": "int32", "unsigned": "uint32", "unsigned int": "uint32", "uint32_t": "uint32",
	"uint": "uint32", "int64_t": "int64", "long": "int64", "long long": "int64", "size_t": "uint64",
	"uint64_t": "uint64", "unsigned long long": "uint64", "bool": "bool", "float": "float32", "double": "float64",
	"half": "fp16", "__half": "fp16", "__nv_bfloat16": "bf16", "nv_bfloat16": "bf16",
}

const initHelp = "write `normbench init cuda FILE.cu:KERNEL`"

var constRE = regexp.MustCompile(`\bconst\b`)

// InitCUDA writes the manifest of a kernel of a file: what its declaration says, and TODO for all that it
// does not say.
func InitCUDA(src nvrtc.Source, kernel string) (string, error) {
	var found []nvrtc.Signature
	var names []string
	for _, g := range src.Signatures() {
		if !slices.Contains(names, g.Name) {
			names = append(names, g.Name)
		}
		if g.Name == kernel || strings.HasSuffix(g.Name, "::"+kernel) {
			found = append(found, g)
		}
	}
	switch {
	case len(names) == 0:
		return "", hint.Errorf(initHelp+" of a file that has __global__ functions",
			"%s has no kernel", src.Name)
	case len(found) == 0:
		return "", hint.Errorf(initHelp, "%s has no kernel %s, but %s", src.Name, kernel, strings.Join(names, ", "))
	}
	g := found[0]
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Written by normbench init of %s: fill in each TODO.", src.Name)
	if len(found) > 1 {
		line("# %s has %d kernels of this name: this is the first.", src.Name, len(found))
	}
	bare := g.Name[strings.LastIndexByte(g.Name, ':')+1:]
	line("name: %s", strings.ToLower(strings.Trim(bare, "_")))
	lower := strings.ReplaceAll(strings.ToLower(bare), "_", "")
	rms, layer := strings.Contains(lower, "rms"), strings.Contains(lower, "layernorm")
	switch {
	case rms: // some are called rms_layernorm
		line("op: rmsnorm")
	case layer:
		line("op: layernorm")
	default:
		line("op: TODO # %s", kernels.OpChoices())
	}
	given := map[string]int{}
	for _, p := range g.Params {
		given[certain[strings.ToLower(p.Name)]]++
	}
	pass := "TODO # fwd or bwd"
	switch {
	case slices.ContainsFunc(gradients, func(name string) bool { return given[name] > 0 }):
		pass = "bwd"
	case given["y"] > 0:
		pass = "fwd"
	}
	line("pass: %s\n", pass)
	line("serves: # the problems that it is right for\n  - {require: TODO, reason: TODO} # such as fp32 && xb == wb && weight\n")
	entry := g.Name
	if len(g.Template) > 0 {
		entry += "<" + strings.Repeat(Todo+", ", len(g.Template)-1) + Todo + ">"
	}
	line("launches:\n  - source: %s", src.Name)
	if len(g.Template) > 0 {
		line("    entry: %s # template <%s>", entry, strings.Join(g.Template, ", "))
	} else {
		line("    entry: %s", entry)
	}
	line("    grid: TODO # CTAs, or up to three numbers")
	line("    block: TODO # threads, or up to three numbers")
	if g.Shared {
		line("    shared: TODO # bytes of dynamic shared memory")
	}
	line("    args:")
	for _, p := range g.Params {
		line("      - %s # %s %s", initArg(p, given), p.Type, p.Name)
	}
	return b.String(), nil
}

// initArg is what a manifest gives a parameter. A name that two parameters could have is not certain.
func initArg(p nvrtc.CParam, given map[string]int) string {
	value := certain[strings.ToLower(p.Name)]
	if value == "" || given[value] > 1 {
		value = Todo
	}
	kind := strings.Join(strings.Fields(constRE.ReplaceAllString(p.Type, " ")), " ")
	isNumber := value == "eps" || value == "M" || value == "N"
	switch number, ok := numberTypes[kind]; {
	case strings.Contains(kind, "*") && isNumber, !strings.Contains(kind, "*") && !isNumber && !ok:
		value = Todo
	case ok && !isNumber:
		return fmt.Sprintf("{%s: %s, value: TODO}", number, p.Name)
	case ok:
		return fmt.Sprintf("{%s: %s, value: %s}", number, p.Name, value)
	case !strings.Contains(kind, "*"):
		return fmt.Sprintf("{TODO: %s, value: %s}", p.Name, value)
	}
	return value
}
