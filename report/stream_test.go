package report

import (
	"bytes"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devicetest"
)

func TestStreamScores(t *testing.T) {
	at := func(us, stream float64) Cell {
		c := timed(us)
		c.StreamUS = stream
		return c
	}
	p := func(s string) kernels.Problem { return devicetest.Problem(t, s) }
	s := Side{Cells: map[kernels.Problem]Cell{
		p("rmsnorm/fwd/4096x1024/bf16"): at(10, 9),
		p("rmsnorm/fwd/4096x2048/bf16"): at(20, 20*0.4),
		p("rmsnorm/fwd/4096x4096/bf16"): failed(kernels.StatusWrong, "as asked"),
		p("rmsnorm/bwd/4096x1024/bf16"): at(10, 0), // of published times, say
	}}
	scores := StreamScores(s)
	assert.Must(t, len(scores) == 3 && scores[2].Kind == "", "%+v", scores)
	one := StreamScores(Side{Label: "empty"})
	assert.Equal(t, len(one), 0, one)
	var b bytes.Buffer
	assert.NoError(t, RenderTable(&b, StreamTable(scores), FormatCSV))
	want := "side,kind,problems,stream_percent,worst_stream_percent,worst_problem\n" +
		"A,rms fwd,2,60,40,rmsnorm/fwd/4096x2048/bf16\nA,rms bwd,0,,,\n" +
		"A,all,2,60,40,rmsnorm/fwd/4096x2048/bf16\n"
	assert.Equal(t, b.String(), want)
}
