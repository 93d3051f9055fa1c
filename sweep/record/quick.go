package record

import (
	"bytes"
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"normbench/kernels"
)

// quick decodes a record's line as encode writes it, field by field in its order, in a fifth of
// the time of a decoder for any JSON. It is false of all other lines, which are for the
// decoder to read, or to refuse: of another schema or order, with an unknown field, an
// escape or a byte beyond ASCII. The checksum, which it passes over, is checked.
func (d *decoder) quick(b []byte, l *line) bool {
	c := cursor{rest: b}
	c.need(`{"schema":2,"kind":"record"`)
	l.head = head{Schema: Schema, Kind: kindRecord}
	if c.has(`,"more":`) {
		l.More = int(c.integer())
	}
	r := &l.Record
	c.need(`,"run":`)
	r.Run = d.word(c.text())
	c.need(`,"key":`)
	r.Key = string(c.text())
	c.need(`,"time":`)
	r.Time = c.time()
	c.need(`,"problem":`)
	l.Problem = d.word(c.text())
	c.need(`,"family":`)
	r.Family = d.word(c.text())
	c.need(`,"config":`)
	l.Config = d.word(c.text())
	r.Base = c.has(`,"base":true`)
	c.need(`,"status":`)
	r.Status = kernels.Status(d.word(c.text()))
	if c.has(`,"reason":`) {
		r.Reason = string(c.text())
	}
	c.need(`,"source":`)
	r.Source = d.word(c.text())
	if c.has(`,"launch":`) {
		r.Launch = string(c.text())
	}
	c.need(`,"seed":`)
	r.Seed = c.whole()
	if c.has(`,"scratch_bytes":`) {
		r.ScratchBytes = c.integer()
	}
	if c.has(`,"samples_us":`) {
		r.SamplesUS = c.numbers(r.SamplesUS)
	}
	if c.has(`,"stages":`) {
		c.list(func() {
			c.need(`{"stage":`)
			s := Stage{Stage: d.word(c.text())}
			c.need(`,"samples_us":`)
			if n := len(r.Stages); n < cap(r.Stages) { // lent
				s.SamplesUS = r.Stages[:n+1][n].SamplesUS
			}
			s.SamplesUS = c.numbers(s.SamplesUS)
			c.need(`}`)
			r.Stages = append(r.Stages, s)
		})
	}
	if c.has(`,"stages_by":`) {
		r.StagesBy = d.word(c.text())
	}
	if c.has(`,"visits":`) {
		c.list(func() { r.Visits = append(r.Visits, int(c.integer())) })
	}
	if c.has(`,"search_us":`) {
		r.SearchUS = c.number()
	}
	if c.has(`,"finals":`) {
		r.Finals = int(c.integer())
	}
	if c.has(`,"chosen":`) {
		r.Chosen = string(c.text())
	}
	r.Entry = c.has(`,"entry":true`)
	if c.has(`,"base_again_us":`) || c.has(`,"twin_us":`) { // its name before 2026-11-24
		r.BaseAgainUS = c.numbers(r.BaseAgainUS)
	}
	for _, f := range []struct {
		name string
		to   *float64
	}{{`,"gap_us":`, &r.GapUS}, {`,"stream_us":`, &r.StreamUS}, {`,"wall_ms":`, &r.WallMS}} {
		if c.has(f.name) {
			*f.to = c.number()
		}
	}
	if c.has(`,"bytes":`) {
		r.Bytes = c.integer()
	}
	if c.has(`,"check":`) {
		d.quickCheck(&c, r)
	}
	return !c.bad && len(c.rest) == len(`,"crc":"01234567"}`)
}

// empty is d's line as one that nothing has been read into, with the room of the last one.
func (d *decoder) empty() *line {
	r := &d.line.Record
	d.line = line{Record: Record{SamplesUS: r.SamplesUS[:0], Stages: r.Stages[:0], Visits: r.Visits[:0], BaseAgainUS: r.BaseAgainUS[:0]}}
	return &d.line
}

// keep is a lent record that outlasts the next one.
func keep(r *Record) *Record {
	k := *r
	k.SamplesUS, k.BaseAgainUS, k.Visits, k.Stages = some(r.SamplesUS), some(r.BaseAgainUS), some(r.Visits), some(r.Stages)
	for i := range k.Stages {
		k.Stages[i].SamplesUS = some(k.Stages[i].SamplesUS)
	}
	if r.Check != nil {
		c := *r.Check
		c.Outputs, c.Resources = some(c.Outputs), some(c.Resources)
		k.Check = &c
	}
	return &k
}

// some are copies, nil of none.
func some[T any](v []T) []T { return append([]T(nil), v...) }

// quickCheck reads the check of a record whose outputs are right.
func (d *decoder) quickCheck(c *cursor, r *Record) {
	k := &d.check
	*k = kernels.Check{Outputs: k.Outputs[:0], Resources: k.Resources[:0]}
	r.Check = k
	c.need(`{"repeats":`)
	k.Repeats = int(c.integer())
	k.Unordered = c.has(`,"unordered":true`)
	if c.has(`,"digest":`) {
		k.Digest = c.whole()
	}
	c.need(`,"outputs":`)
	if c.has(`null`) {
		k.Outputs = nil
	} else {
		c.list(func() {
			c.need(`{"name":`)
			o := kernels.OutputCheck{Name: d.word(c.text())}
			c.need(`,"elems":`)
			o.Elems = c.integer()
			if c.has(`,"max_err":`) {
				o.MaxErr = c.number()
			}
			if c.has(`,"rel_l2":`) {
				o.RelL2 = c.number()
			}
			c.need(`}`)
			k.Outputs = append(k.Outputs, o)
		})
	}
	if c.has(`,"resources":`) {
		c.list(func() {
			c.need(`{"stage":`)
			x := kernels.Resource{Stage: d.word(c.text())}
			for _, f := range []struct {
				name string
				to   *int
			}{{`,"registers":`, &x.Registers}, {`,"spill":`, &x.Spill}, {`,"local":`, &x.Local}, {`,"shared":`, &x.Shared},
				{`,"blocks_per_sm":`, &x.Occupancy}, {`,"threads":`, &x.Threads}, {`,"ctas":`, &x.CTAs}} {
				if c.has(f.name) {
					*f.to = int(c.integer())
				}
			}
			c.need(`}`)
			if !d.reuse { // no summary keeps them
				k.Resources = append(k.Resources, x)
			}
		})
	}
	if c.has(`,"differing":`) {
		k.Differing = c.integer()
	}
	if c.has(`,"busy":`) {
		k.Busy = c.number()
	}
	if c.has(`,"compile":`) {
		k.Compile = c.number()
	}
	c.need(`}`)
}

// A cursor reads JSON of a known order. What it cannot read makes it bad, and ends every loop.
type cursor struct {
	rest []byte
	bad  bool
}

func (c *cursor) has(text string) bool {
	if len(c.rest) < len(text) || string(c.rest[:len(text)]) != text {
		return false
	}
	c.rest = c.rest[len(text):]
	return true
}

func (c *cursor) need(text string) {
	if !c.has(text) {
		c.fail()
	}
}

func (c *cursor) fail() { c.bad, c.rest = true, nil }

// list calls each at each element of an array.
func (c *cursor) list(each func()) {
	if c.need(`[`); c.has(`]`) {
		return
	}
	for !c.bad {
		if each(); c.has(`]`) {
			return
		}
		c.need(`,`)
	}
}

// text is a string of ASCII without escapes.
func (c *cursor) text() []byte {
	c.need(`"`)
	for i, b := range c.rest {
		switch {
		case b == '"':
			s := c.rest[:i]
			c.rest = c.rest[i+1:]
			return s
		case b == '\\' || b < ' ' || b >= 0x80:
			c.fail()
			return nil
		}
	}
	c.fail()
	return nil
}

// time is a time as UTC's are written. The parser of the library is laxer than RFC 3339.
func (c *cursor) time() (t time.Time) {
	s := c.text()
	if len(s) < len("2006-01-02T15:04:05Z") || s[13] != ':' || s[len(s)-1] != 'Z' || bytes.IndexByte(s, ',') >= 0 || t.UnmarshalText(s) != nil {
		c.fail()
	}
	return t
}

// digits are those of a number, as JSON has them.
func (c *cursor) digits() []byte {
	n := 0
	for n < len(c.rest) && '0' <= c.rest[n] && c.rest[n] <= '9' {
		n++
	}
	s := c.rest[:n]
	if n == 0 || n > 1 && s[0] == '0' {
		c.fail()
		return nil
	}
	c.rest = c.rest[n:]
	return s
}

// whole is a number of up to 19 digits.
func (c *cursor) whole() (n uint64) {
	s := c.digits()
	if len(s) > 19 {
		c.fail()
		return 0
	}
	for _, b := range s {
		n = 10*n + uint64(b-'0')
	}
	return n
}

func (c *cursor) integer() int64 {
	n := c.whole()
	if n > math.MaxInt64 {
		c.fail()
	}
	return int64(n)
}

// number is any that JSON has. Of 15 digits at most, the digits and their power of ten are exact,
// and their quotient is rounded once.
func (c *cursor) number() float64 {
	b, digits, point, n := c.rest, uint64(0), -1, 0
	for ; n < len(b); n++ {
		switch ch := b[n]; {
		case '0' <= ch && ch <= '9':
			digits = 10*digits + uint64(ch-'0')
			continue
		case ch == '.' && point < 0:
			point = n
			continue
		case ch == '.' || ch == '-' || ch == '+' || ch == 'e' || ch == 'E':
			return c.slowNumber()
		}
		break
	}
	behind := 0
	if point >= 0 {
		behind = n - point - 1
	}
	if n == 0 || n > 15 || point == 0 || point == n-1 || b[0] == '0' && n > 1 && point != 1 {
		return c.slowNumber()
	}
	c.rest = b[n:]
	return float64(digits) / powers[behind]
}

var powers = [16]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

func (c *cursor) slowNumber() float64 {
	n := 0
	for n < len(c.rest) && (c.rest[n]-'0' <= 9 || c.rest[n] == '.' || c.rest[n] == '-' || c.rest[n] == '+' || c.rest[n]|' ' == 'e') {
		n++
	}
	f, err := strconv.ParseFloat(string(c.rest[:n]), 64)
	if err != nil || !jsontext.Value(c.rest[:n]).IsValid() {
		c.fail()
		return 0
	}
	c.rest = c.rest[n:]
	return f
}

// numbers is a list of them, in place of what to has.
func (c *cursor) numbers(to []float64) []float64 {
	to = to[:0]
	c.list(func() { to = append(to, c.number()) })
	return to
}
