package kernels

import (
	"encoding/json"
	"testing"

	"normbench/internal/assert"
)

func TestPlanIsTheSameJSON(t *testing.T) {
	p := Plan{Scratch: []Scratch{{"part", FP32, 64}}, Launches: []Launch{
		{Stage: "k1", Source: "a.cu", Entry: "sum", Grid: [3]int{132, 1, 1}, Block: 256,
			Shared: 1024, Cluster: 2, Early: true,
			Defines: []Define{{"WARPS", 8}}, Args: append(Buffers("x", ""), Int64("rows", 0),
				Float32("eps", 1e-5))}}}
	b, err := json.MarshalIndent(p, "", " ")
	assert.NoError(t, err)
	assert.Golden(t, "testdata/plan.json", string(b)+"\n")
}
