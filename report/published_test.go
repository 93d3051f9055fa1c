package report

import (
	"strings"
	"testing"

	"normbench/internal/hint"
	"normbench/kernels"
)

func TestReadPublished(t *testing.T) {
	s, err := readPublished(strings.NewReader("op,pass,M,N,stream_us,x_us,y_ms\nlayer,bwd,64,32,2.0,4.5,\nrms,fwd,1,7,,3,0.25\n"), "f.csv", "x_us")
	if err != nil {
		t.Fatal(err)
	}
	ln, _ := kernels.ParseProblem("layernorm/bwd/64x32/bf16+bias")
	if c := s.Cells[ln]; c.MedianUS != 4.5 || c.StreamUS != 2 || c.Bytes != ln.Bytes() || len(s.Cells) != 2 {
		t.Errorf("%+v of %d cells", c, len(s.Cells))
	}
	s, err = readPublished(strings.NewReader("kind,dtype,quant,M,N,a_ms\nfwd,float16,fp8_t,8,9,0.5\nbwd,bfloat16,none,8,9,\n"), "f.csv", "a_ms")
	fp8, _ := kernels.ParseProblem("rmsnorm/fwd/8x9/fp16+fp8t")
	if err != nil || len(s.Cells) != 1 || s.Cells[fp8].MedianUS != 500 {
		t.Errorf("%+v, %v", s.Cells, err)
	}
}

func TestReadPublishedErrors(t *testing.T) {
	for name, test := range map[string]struct{ text, column, want string }{
		"empty":     {"", "x_us", "EOF"},
		"no column": {"pass,M,N,x_us\n", "y_us", `no column of times "y_us"`},
		"no unit":   {"pass,M,N,x\n", "x", `no column of times "x"`},
		"no M":      {"pass,N,x_us\n", "x_us", "lack a column"},
		"bad time":  {"pass,M,N,x_us\nfwd,1,2,fast\n", "x_us", `f.csv:2: "fast" is no time`},
		"bad shape": {"pass,M,N,x_us\nfwd,1,2,1\nfwd,-1,2,3\n", "x_us", "f.csv:3: "},
		"bad word":  {"pass,op,M,N,x_us\nfwd,batchnorm,1,2,3\n", "x_us", `unknown word "batchnorm"`},
		"twice":     {"pass,M,N,x_us\nfwd,1,2,3\nfwd,1,2,4\n", "x_us", "stands twice"},
		"columns":   {"pass,M,N,x_us,y_us,x_us\nfwd,1,2,3,4,5\n", "y_us", `column "x_us" stands twice`},
		"ragged":    {"pass,M,N,x_us\nfwd,1\n", "x_us", "f.csv:2"},
	} {
		_, err := readPublished(strings.NewReader(test.text), "f.csv", test.column)
		if err == nil || !strings.Contains(err.Error(), test.want) || hint.Of(err) == "" {
			t.Errorf("%s: %v, hint %q; want %q", name, err, hint.Of(err), test.want)
		}
	}
}

// No file makes the reader fail otherwise than by an error, and what it reads is
// a valid problem with a time.
func FuzzReadPublished(f *testing.F) {
	f.Add("op,pass,M,N,stream_us,x_us\nlayer,bwd,64,32,2.0,4.5\n")
	f.Add("kind,dtype,quant,M,N,x_us\nfwd,float16,fp8_t,8,9,0.5\n")
	f.Add("pass,M,N,x_us\n\"fwd,1\n")
	f.Add("\xef\xbb\xbfop,pass,M,N,x_us,x_us\nlayer,bwd,64,32,NaN,+Inf\n")
	f.Add("op,pass,M,N,x_us\nlayer\x1b[2J,bwd,99999999999999999999,-1,1e999\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := readPublished(strings.NewReader(text), "f.csv", "x_us")
		if err != nil {
			return
		}
		for p, c := range s.Cells {
			if p.Validate() != nil || !(c.MedianUS > 0) {
				t.Errorf("%s: %+v", p, c)
			}
		}
	})
}
