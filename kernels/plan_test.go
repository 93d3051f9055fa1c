package kernels

import (
	"encoding/json"
	"math"
	"testing"

	"normbench/internal/assert"
)

func TestPlanJSON(t *testing.T) {
	p := Plan{Scratch: []Scratch{{"part", FP32, 64}}, Launches: []Launch{
		{Stage: "k1", Source: "a.cu", Entry: "sum", Grid: [3]int{132, 1, 1}, Block: 256,
			Shared: 1024, Cluster: 2, Early: true,
			Defines: []Define{{"WARPS", 8}}, Args: append(Buffers("x", ""), Int64("rows", 0),
				Float32("eps", 1e-5))}}}
	b, err := json.Marshal(p)
	const want = `{"launches":[{"stage":"k1","source":"a.cu","entry":"sum","grid":[132,1,1],` +
		`"block":256,"shared":1024,"cluster":2,` +
		`"resident":false,"early":true,"apart":false,"defines":[{"name":"WARPS","value":8}],` +
		`"args":[{"name":"x","type":"buffer"},{"name":"","type":"null"},` +
		`{"name":"rows","type":"int64","value":0},{"name":"eps","type":"float32","value":0.00001}]}],` +
		`"scratch":[{"name":"part","dtype":"fp32","elems":64}]}`
	assert.That(t, string(b) == want && err == nil, "got %s, %v\nwant %s", b, err, want)
}

// The number of an argument lies in the first bytes of its slot.
func TestArgBits(t *testing.T) {
	for _, test := range []struct {
		kind string
		arg  Arg
		want uint64
	}{
		{"int32", Arg{Int: -1}, math.MaxUint64},
		{"bool", Arg{Int: 1}, 1},
		{"float32", Arg{Float: 1}, 0x3f800000},
		{"float64", Arg{Float: 1}, 0x3ff0000000000000},
		{"fp16", Arg{Float: 1}, 0x3c00},
		{"bf16", Arg{Float: 1}, 0x3f80},
	} {
		kind, ok := ParseArgKind(test.kind)
		test.arg.Kind = kind
		assert.That(t, ok && kind.String() == test.kind && test.arg.Bits() == test.want,
			"%s: %x, want %x", test.kind, test.arg.Bits(), test.want)
	}
	for name, want := range map[string][2]int64{"int8": {-128, 127}, "uint16": {0, 65535},
		"uint64": {0, math.MaxInt64}, "int64": {math.MinInt64, math.MaxInt64}, "bool": {0, 1}} {
		k, _ := ParseArgKind(name)
		lo, hi := k.Range()
		assert.That(t, lo == want[0] && hi == want[1], "%s is %d to %d", name, lo, hi)
	}
	_, ok := ParseArgKind("buffer")
	assert.That(t, !ok, "a buffer is a number")
}
