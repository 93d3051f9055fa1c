package launchrule

import (
	"fmt"
	"strings"

	"normbench/kernels"
)

var python = language{
	comment: "#", indent: "    ",
	head: func([]*kernels.Knob) string { return "" },
	helpers: `def _next_pow2(n):
    return 1 << (n - 1).bit_length()


def _scaled(v, num, den):
    return max(1, v * num // den)


`,
	sign: `def pick(op, pass_, m, n, dtype, options, sms):
    """The launch config for m rows of n elements as a dict, or None: no answer.

    op is "rmsnorm" or "layernorm", pass_ "fwd" or "bwd", dtype that of x ("bf16",
    "fp16" or "fp32"), sms the number of SMs.
    options are a sum: 1 bias, 2 zero-centered weight, 4 no weight, 8 residual,
    16 fp8, 32 fp8 with its transpose, 64 gradients to add to.
    """
    if m < 1 or n < 1 or m > 1 << 31 or n > 1 << 31 or m * n > 1 << 48:
        return None
    dtype_bytes = 4 if dtype == "fp32" else 2
    rows = (m + sms - 1) // sms  # per SM
`,
	locals: `    row = _next_pow2(n * dtype_bytes)  # bytes
`,
	ifs: func(c string) string { return "if " + c + ":\n" }, once: "while True:\n", endOnce: "break", and: " and ", none: "return None", text: quoted,
	answer: func(family string, rule int, vs []value) string {
		parts := []string{fmt.Sprintf(`"family": %q`, family), fmt.Sprintf(`"rule": %d`, rule)}
		for _, v := range vs {
			parts = append(parts, fmt.Sprintf("%q: %s", v.knob.Name, v.expr))
		}
		return "return {" + strings.Join(parts, ", ") + "}"
	},
	scaled: "_scaled",
}

var golang = language{
	comment: "//", indent: "\t",
	head: func(knobs []*kernels.Knob) string {
		var b strings.Builder
		b.WriteString("package launch\n\n// A Launch is a config with the rule that it is from.\ntype Launch struct {\n\tFamily string\n\tRule int\n")
		for _, k := range knobs {
			fmt.Fprintf(&b, "\t%s int64 // %s\n", camel(k.Name), k.Doc)
		}
		b.WriteString("}\n\n")
		return b.String()
	},
	helpers: `func nextPow2(n int64) int64 {
	p := int64(1)
	for p < n {
		p *= 2
	}
	return p
}

func scaled(v, num, den int64) int64 { return max(1, v*num/den) }

`,
	sign: `// Pick is the launch config for m rows of n elements; ok is false
// without an answer. Op is "rmsnorm" or "layernorm", pass_ "fwd" or "bwd", dtype
// that of x ("bf16", "fp16" or "fp32"), sms the number of SMs.
// Options are a sum: 1 bias, 2 zero-centered weight, 4 no weight, 8 residual,
// 16 fp8, 32 fp8 with its transpose, 64 gradients to add to.
func Pick(op, pass_ string, m, n int64, dtype string, options, sms int64) (launch Launch, ok bool) {
	if m < 1 || n < 1 || m > 1<<31 || n > 1<<31 || m > 1<<48/n {
		return Launch{}, false
	}
	rows, dtype_bytes := (m+sms-1)/sms, int64(2) // rows per SM
	if dtype == "fp32" {
		dtype_bytes = 4
	}
	_, _, _ = rows, dtype_bytes, options
`,
	locals: `	row := nextPow2(n * dtype_bytes) // bytes
`,
	foot: "}\n",
	ifs:  func(c string) string { return "if " + c + " {\n" }, end: "}\n", once: "for {\n", endOnce: "break", and: " && ", none: "return Launch{}, false", text: quoted,
	answer: func(family string, rule int, vs []value) string {
		parts := []string{fmt.Sprintf("Family: %q", family), fmt.Sprintf("Rule: %d", rule)}
		for _, v := range vs {
			parts = append(parts, camel(v.knob.Name)+": "+v.expr)
		}
		return "return Launch{" + strings.Join(parts, ", ") + "}, true"
	},
	scaled: "scaled",
}

var cpp = language{
	comment: "//", indent: "  ",
	head: func(knobs []*kernels.Knob) string {
		var b strings.Builder
		b.WriteString(`#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace normbench {

// A config with the rule that it is from; without a family there is no answer.
struct Launch {
  const char* family = nullptr;
  int rule = 0;
`)
		for _, k := range knobs {
			fmt.Fprintf(&b, "  std::int64_t %s = 0;  // %s\n", k.Name, k.Doc)
		}
		b.WriteString("};\n\n")
		return b.String()
	},
	helpers: `inline std::int64_t next_pow2(std::int64_t n) {
  std::int64_t p = 1;
  while (p < n) p *= 2;
  return p;
}

inline std::int64_t scaled(std::int64_t v, std::int64_t num, std::int64_t den) {
  return std::max<std::int64_t>(1, v * num / den);
}

`,
	sign: `// The launch config for m rows of n elements. op is "rmsnorm" or "layernorm",
// pass_ "fwd" or "bwd", dtype that of x ("bf16", "fp16" or "fp32"), sms the
// number of SMs. options are a sum: 1 bias, 2 zero-centered weight, 4 no weight, 8 residual,
// 16 fp8, 32 fp8 with its transpose, 64 gradients to add to.
inline Launch pick(std::string_view op, std::string_view pass_, std::int64_t m, std::int64_t n,
                   std::string_view dtype, std::int64_t options, std::int64_t sms) {
  Launch a;
  const std::int64_t most = std::int64_t{1} << 31;
  if (m < 1 || n < 1 || m > most || n > most || m > (std::int64_t{1} << 48) / n) {
    return a;
  }
  const std::int64_t dtype_bytes = dtype == "fp32" ? 4 : 2;
  const std::int64_t rows = (m + sms - 1) / sms;  // per SM
  (void)rows, (void)dtype_bytes, (void)options;
`,
	locals: `  const std::int64_t row = next_pow2(n * dtype_bytes);  // bytes
`,
	foot: "}\n\n}  // namespace normbench\n",
	ifs:  func(c string) string { return "if (" + c + ") {\n" }, end: "}\n", once: "for (;;) {\n", endOnce: "break;", and: " && ", none: "return a;", text: quoted,
	answer: func(family string, rule int, vs []value) string {
		parts := []string{fmt.Sprintf("a.family = %q;", family), fmt.Sprintf("a.rule = %d;", rule)}
		for _, v := range vs {
			parts = append(parts, fmt.Sprintf("a.%s = %s;", v.knob.Name, v.expr))
		}
		return strings.Join(append(parts, "return a;"), " ")
	},
	scaled: "scaled",
}
