package sweep

import (
	"strings"
	"testing"

	"normbench/sweep/record"
	"normbench/sweep/search"
)

// appends is a memory that keeps what came together.
type appends struct {
	memory
	together [][]*record.Record
}

func (a *appends) AppendAll(vs ...interface{ CheckValid() error }) error {
	var rs []*record.Record
	for _, v := range vs {
		if r, ok := v.(*record.Record); ok && r.Family != record.Stream {
			rs = append(rs, r)
		}
	}
	if len(rs) > 0 {
		a.together = append(a.together, rs)
	}
	return a.memory.AppendAll(vs...)
}

// What the search of a problem saw and its finals are one append, and each of the
// finals says how many they are: a kill leaves all of a problem or nothing.
func TestSearchAppendsOnce(t *testing.T) {
	ts := tasks(t, 6, pool[0], pool[1])
	sink := &appends{}
	mustRun(t, ts, sink, searching(search.Grid, search.Budget{}), fake())
	if len(sink.together) != 2 {
		t.Fatalf("%d appends for 2 problems", len(sink.together))
	}
	for _, rs := range sink.together {
		finals := 0
		for _, r := range rs {
			if strings.HasSuffix(r.Run, "-finals") {
				finals++
			} else if r.Finals != 0 {
				t.Errorf("%s of the search counts %d finals", r.Variant(), r.Finals)
			}
		}
		last := rs[len(rs)-1]
		if finals < 2 || last.Finals != finals || !last.Base || rs[0].Problem != last.Problem {
			t.Errorf("%d finals, the last of %d, base %v", finals, last.Finals, last.Base)
		}
	}
}
