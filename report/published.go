package report

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/kernels"
)

// ReadPublished reads times that others have published as one side of a
// comparison: a CSV file whose header names M, N, pass (or kind) and, where they
// are not rmsnorm, bf16 and none, op, dtype and quant. The column of the times
// ends in _us or _ms; empty cells were not measured. A column stream_us is the
// time of a copy of the same bytes in the same run.
//
// As everywhere here, layernorm has a bias and the weight the type of x.
func ReadPublished(path, column string) (Side, error) {
	data, err := textfile.Read(path, textfile.Large)
	if err != nil {
		return Side{}, hint.Errorf(cmp.Or(hint.Of(err), "results/published has some"), "published times %s: %w", path, durable.Cause(err))
	}
	return readPublished(bytes.NewReader(data), path, column)
}

func readPublished(r io.Reader, path, column string) (Side, error) {
	s := Side{Label: path + "#" + column, Cells: map[kernels.Problem]Cell{}}
	c := csv.NewReader(r)
	header, err := c.Read()
	if err != nil {
		return s, hint.Errorf("its first line names the columns: op,pass,dtype,M,N,x_us", "published times %s: %v", path, err)
	}
	for i, name := range header {
		if name != "" && slices.Contains(header[:i], name) {
			return s, hint.Errorf("rename one of the two, or delete it", "published times %s: column %q stands twice", path, name)
		}
	}
	at := func(names ...string) int {
		return slices.IndexFunc(header, func(h string) bool { return slices.Contains(names, h) })
	}
	times := at(column)
	unit := 0.0
	for suffix, us := range map[string]float64{"_us": 1, "_ms": 1000} {
		if strings.HasSuffix(column, suffix) {
			unit = us
		}
	}
	if times < 0 || unit == 0 {
		help := "name a column of times x_us or x_ms"
		if names := timeColumns(header); len(names) > 0 {
			help = "write FILE#COLUMN with one of " + strings.Join(names, ", ")
		}
		return s, hint.Errorf(help, "published times %s have no column of times %q", path, column)
	}
	cols := publishedColumns{op: at("op"), pass: at("pass", "kind"), dtype: at("dtype"), quant: at("quant"), m: at("M"), n: at("N")}
	if cols.pass < 0 || cols.m < 0 || cols.n < 0 {
		return s, hint.Errorf("its first line names the columns: op,pass,dtype,M,N,x_us", "published times %s lack a column M, N or pass", path)
	}
	stream := at("stream_us")
	for {
		row, err := c.Read()
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		var parse *csv.ParseError
		if errors.As(err, &parse) {
			return s, hint.Errorf("mend the line, or leave it out", "published times %s:%d: %v", path, parse.Line, parse.Err)
		} else if err != nil {
			return s, fmt.Errorf("published times %s: %w", path, err)
		}
		line, _ := c.FieldPos(0)
		bad := func(err error) error {
			return hint.Errorf("mend the line, or leave it out", "published times %s:%d: %v", path, line, err)
		}
		if row[times] == "" {
			continue
		}
		p, err := cols.problem(row)
		if err != nil {
			return s, bad(err)
		}
		us, err := positive(row[times])
		if err != nil {
			return s, bad(err)
		}
		cell := Cell{Variant: kernels.Variant{Family: column}, Status: kernels.StatusOK, MedianUS: us * unit, Bytes: p.Bytes()}
		if stream >= 0 && row[stream] != "" {
			if cell.StreamUS, err = positive(row[stream]); err != nil {
				return s, bad(err)
			}
		}
		if _, ok := s.Cells[p]; ok {
			return s, bad(fmt.Errorf("%s stands twice", p))
		}
		s.Cells[p] = cell
	}
}

func timeColumns(header []string) []string {
	var names []string
	for _, h := range header {
		if strings.HasSuffix(h, "_us") || strings.HasSuffix(h, "_ms") {
			names = append(names, h)
		}
	}
	return names
}

// publishedColumns are the places of what makes a problem; below 0 where a file
// has not got it.
type publishedColumns struct{ op, pass, dtype, quant, m, n int }

func (c publishedColumns) problem(row []string) (kernels.Problem, error) {
	word := func(i int, otherwise string, words map[string]string) (string, error) {
		if i < 0 {
			return otherwise, nil
		}
		if w, ok := words[row[i]]; ok {
			return w, nil
		}
		return "", fmt.Errorf("unknown word %q", row[i])
	}
	op, err1 := word(c.op, "rmsnorm", map[string]string{"rms": "rmsnorm", "rmsnorm": "rmsnorm", "layer": "layernorm+bias", "ln": "layernorm+bias", "layernorm": "layernorm+bias"})
	pass, err2 := word(c.pass, "", map[string]string{"fwd": "fwd", "bwd": "bwd"})
	dtype, err3 := word(c.dtype, "bf16", map[string]string{"bf16": "bf16", "fp16": "fp16", "fp32": "fp32", "bfloat16": "bf16", "float16": "fp16", "float32": "fp32"})
	quant, err4 := word(c.quant, "", map[string]string{"none": "", "fp8": "+fp8", "fp8_t": "+fp8t", "fp8t": "+fp8t"})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return kernels.Problem{}, err
	}
	op, bias, _ := strings.Cut(op, "+")
	if bias != "" {
		bias = "+" + bias
	}
	return kernels.ParseProblem(fmt.Sprintf("%s/%s/%sx%s/%s%s%s", op, pass, row[c.m], row[c.n], dtype, bias, quant))
}

func positive(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q is no time", s)
	}
	return v, nil
}
