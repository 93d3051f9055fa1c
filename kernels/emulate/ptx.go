package emulate

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// functions are what stands for PTX in cxx/emulate.h, by the instructions of an asm statement.
var functions = map[string]string{
	"":                              "keep",
	"cvt.rn.bf16x2.f32 %0, %1, %2;": "bf16x2",
	"cvt.rn.f16x2.f32 %0, %1, %2;":  "f16x2",
	"cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;":                                     "e4m3x2",
	"{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}": "halves",
	"prmt.b32 %0, %1, 0, 0x1044;":                                                 "permute<0x1044>",
	"prmt.b32 %0, %1, 0, 0x3244;":                                                 "permute<0x3244>",
	"prmt.b32 %0, %1, 0, 0x1032;":                                                 "permute<0x1032>",
	"max.NaN.f32 %0, %0, %1;":                                                     "maxNaN",
	"max.NaN.f32 %0, %0, 0f00000000;":                                             "notNegative",

	"griddepcontrol.launch_dependents;": "nothing", // launches follow each other here
	"griddepcontrol.wait;":              "nothing",

	"createpolicy.fractional.L2::evict_first.b64 %0, 1.0;":                                                       "policy",
	"createpolicy.fractional.L2::evict_last.b64 %0, 1.0;":                                                        "policy",
	"ld.global.nc.L1::no_allocate.L2::cache_hint.b32 %0, [%1], %2;":                                              "load32",
	"ld.global.nc.L1::no_allocate.L2::cache_hint.v2.b32 {%0, %1}, [%2], %3;":                                     "load64",
	"ld.global.nc.L1::no_allocate.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], %5;":                             "load128",
	"ld.global.nc.L1::evict_last.u16 %0, [%1];":                                                                  "load16",
	"ld.global.nc.L1::evict_last.b32 %0, [%1];":                                                                  "load32",
	"ld.global.nc.L1::evict_last.v2.b32 {%0, %1}, [%2];":                                                         "load64",
	"ld.global.nc.L1::evict_last.v4.b32 {%0, %1, %2, %3}, [%4];":                                                 "load128",
	"ld.acquire.gpu.global.u32 %0, [%1];":                                                                        "loadAcquire",
	"ld.relaxed.gpu.global.u32 %0, [%1];":                                                                        "loadAcquire",
	"st.relaxed.gpu.global.u32 [%0], %1;":                                                                        "storeRelaxed",
	"red.release.gpu.global.add.u32 [%0], 1;":                                                                    "addRelease",
	"red.global.add.f32 [%0], %1;":                                                                               "addFloat",
	"red.global.add.v4.f32 [%0], {%1, %2, %3, %4};":                                                              "addFloats",
	"cp.async.cg.shared.global [%0], [%1], 16, %2;":                                                              "copy16",
	"cp.async.ca.shared.global [%0], [%1], %2, %3;":                                                              "copy",
	"cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;":                                               "copy16Once",
	"cp.async.ca.shared.global.L2::cache_hint [%0], [%1], %2, %3;":                                               "copyOnce",
	"cp.async.commit_group;":                                                                                     "commitCopies",
	"cp.async.wait_group %0;":                                                                                    "waitCopies",
	"mbarrier.init.shared::cta.b64 [%0], %1;":                                                                    "barrierInit",
	"mbarrier.arrive.shared::cta.b64 _, [%0];":                                                                   "barrierCount",
	"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;":                                                     "barrierArrive",
	"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;":                                                   "barrierExpect",
	"{.reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again;}":       "barrierWait",
	"fence.mbarrier_init.release.cluster;":                                                                       "nothing",
	"fence.proxy.async.shared::cta;":                                                                             "nothing",
	"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];":                    "bulkLoad",
	"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;": "bulkLoad",
	"cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;":                                                "bulkStore",
	"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;":                                 "bulkAdd",
	"cp.async.bulk.commit_group;":                                                                                "nothing",
	"cp.async.bulk.wait_group %0;":                                                                               "waitBulk",
	"cp.async.bulk.wait_group.read %0;":                                                                          "waitBulk",
	"mov.u32 %0, %%cluster_ctarank;":                                                                             "rank",
	"barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;":                              "syncCluster",
	"barrier.cluster.arrive.relaxed.aligned;":                                                                    "nothing",
	"barrier.cluster.wait.acquire.aligned;":                                                                      "syncCluster",
	"mapa.shared::cluster.u32 %0, %1, %2;":                                                                       "onRank",
	"st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];":                                  "sendFloat",
	"ld.shared::cluster.f32 %0, [%1];":                                                                           "loadRank",
}

var (
	asmRE         = regexp.MustCompile(`\basm\s*(?:volatile)?\s*\(`)
	dynamicShared = regexp.MustCompile(
		`extern __shared__ ((?:__align__\(\d+\) )?((?:unsigned )?\w+) \w+)\[\];`)
)

// withoutPTX is a source with a call for each asm statement, of its operands in their order.
func withoutPTX(text string) (string, error) {
	var b strings.Builder
	for {
		at := asmRE.FindStringIndex(text)
		if at == nil {
			b.WriteString(text)
			return b.String(), nil
		}
		instructions, operands, rest, err := asm(text[at[1]:])
		if err != nil {
			return "", err
		}
		f, ok := functions[instructions]
		if !ok {
			return "", fmt.Errorf("the emulator has no %q", instructions)
		}
		b.WriteString(text[:at[0]])
		fmt.Fprintf(&b, "emulate::%s(%s)", f, strings.Join(operands, ", "))
		text = rest
	}
}

var errNoEnd = errors.New("an asm statement without an end")

// asm reads what stands between the parentheses of an asm statement: instructions, in one
// line, and the operands' expressions.
func asm(text string) (instructions string, operands []string, rest string, err error) {
	var all strings.Builder
	section, i := 0, 0
	for i < len(text) {
		switch c := text[i]; {
		case c == '"':
			end := endOfString(text, i)
			if end >= len(text) {
				return "", nil, "", errors.New("a string without an end in an asm statement")
			}
			if section == 0 {
				all.WriteString(strings.ReplaceAll(text[i+1:end], `\n`, " "))
			}
			i = end + 1
		case c == ':':
			section++
			i++
		case c == '(':
			end := endOfParentheses(text, i)
			if end < 0 {
				return "", nil, "", errNoEnd
			}
			if section > 0 && section < 3 {
				operands = append(operands, text[i+1:end])
			}
			i = end + 1
		case c == ')':
			return oneLine(all.String()), operands, text[i+1:], nil
		default:
			i++
		}
	}
	return "", nil, "", errNoEnd
}

// endOfString is where the string that begins at i ends; len(text) or more where it does not.
func endOfString(text string, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i
}

// endOfParentheses is where those that open at i are closed; negative where they are not.
func endOfParentheses(text string, i int) int {
	depth := 0
	for ; i < len(text); i++ {
		switch text[i] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}
