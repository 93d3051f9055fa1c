package kernels

import (
	"encoding/json"
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
