package rules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"normbench/internal/hint"
	"normbench/kernels"
)

// numbered is a pick whose answers are numbers, 0 for none.
func numbered(answer func(m int64) int) func(m int64) (kernels.Variant, bool) {
	return func(m int64) (kernels.Variant, bool) {
		a := answer(m)
		return kernels.Variant{Family: fmt.Sprint(a)}, a != 0
	}
}

// rangesText is ranges in short: 1-63:1 64-128%4:2.
func rangesText(rs []Range) string {
	var parts []string
	for _, r := range rs {
		s := fmt.Sprintf("%d-%d", r.Over+1, r.Max)
		if r.Multiple > 0 {
			s += fmt.Sprintf("%%%d", r.Multiple)
		}
		parts = append(parts, s+":"+r.Variant.Family)
	}
	return strings.Join(parts, " ")
}

// from answers 1 and one more from each of some rows on.
func from(rows ...int64) func(m int64) int {
	return func(m int64) int {
		n, found := slices.BinarySearch(rows, m)
		if found {
			n++
		}
		return 1 + n
	}
}

func TestRanges(t *testing.T) {
	const most = 1 << 20
	flag := map[bool]int{true: 1}
	for _, tc := range []struct {
		name   string
		rows   int64
		answer func(m int64) int
		near   []int64
		want   string
	}{
		{"one answer", most, from(), nil, "1-1048576:1"},
		{"one row", 1, from(), nil, "1-1:1"},
		{"few rows", 100, from(64), nil, "1-63:1 64-100:2"},
		{"thresholds", most, from(2, 64, 529, 7681, 122881, 983041), nil, "1-1:1 2-63:2 64-528:3 529-7680:4 7681-122880:5 122881-983040:6 983041-1048576:7"},
		{"even and odd thresholds", most, from(8, 33, 1056, 1057, 61440, 61443), nil, "1-7:1 8-32:2 33-1055:3 1056-1056:4 1057-61439:5 61440-61442:6 61443-1048576:7"},
		{"thresholds beside each other", most, from(13, 14, 15, 100, 101, 50000, 50001), nil, "1-12:1 13-13:2 14-14:3 15-99:4 100-100:5 101-49999:6 50000-50000:7 50001-1048576:8"},
		{"the last row", most, from(most), nil, "1-1048575:1 1048576-1048576:2"},
		{"a multiple", most, func(m int64) int { return 1 + flag[m%4 == 0] }, nil, "1-1048576%4:2 1-1048576:1"},
		{"multiples of multiples", most, func(m int64) int { return 1 + flag[m%4 == 0] + flag[m%32 == 0] }, nil, "1-1048576%32:3 1-1048576%4:2 1-1048576:1"},
		{"a multiple between two rows", most, func(m int64) int { return 1 + flag[m%16 == 0 && m > 1000 && m < 70000] }, nil, "1008-69984%16:2 1-1048576:1"},
		{"a multiple beside a threshold", most, func(m int64) int {
			if m <= 2560 {
				return 1
			}
			return 2 + flag[m%4 == 0]
		}, nil, "1-2560:1 2561-1048576%4:3 2561-1048576:2"},
		{"refused above", most, func(m int64) int { return flag[m <= 4097] }, nil, "1-4097:1"},
		{"refused below and between", most, func(m int64) int { return flag[m >= 5 && (m < 4000 || m > 300000)] }, nil, "5-3999:1 300001-1048576:1"},
		{"refused but for multiples", most, func(m int64) int { return flag[m%8 == 0] }, nil, "1-1048576%8:1"},
		{"refused", most, func(m int64) int { return 0 }, nil, ""},
		{"a row that is named", most, func(m int64) int { return 1 + flag[m == 8192] + flag[m == 32767] }, []int64{8192, 32767}, "1-8191:1 8192-8192:2 8193-32766:1 32767-32767:2 32768-1048576:1"},
	} {
		got, err := Ranges(numbered(tc.answer), tc.rows, tc.near...)
		if text := rangesText(got); text != tc.want || err != nil {
			t.Errorf("%s: %v\n got %s\nwant %s", tc.name, err, text, tc.want)
		}
	}
}

func TestRangesErrors(t *testing.T) {
	const fine = "the answer changes too often for a few ranges, as at "
	flag := map[bool]int{true: 1}
	for _, tc := range []struct {
		answer     func(m int64) int
		want, hint string
	}{
		{func(m int64) int { return 1 + flag[m%3 == 0] }, fine, "give --rows less than "},
		{func(m int64) int { return 1 + flag[m > 4096 && m%6 == 0] }, fine, "give --rows 4096, "},
		{func(m int64) int { return 1 + flag[m%128 == 0] }, fine, "give --rows 4096, "},
		{func(m int64) int { return 1 + int(m/100) }, fine, "give --rows 4096, "},
		{func(m int64) int { return flag[m%4 != 0] }, "there is no answer at 4 rows, and is one beside them, which no rule says", "give --rows less than 4, "},
		{func(m int64) int { return flag[m%16 != 0 || m < 1000] }, "there is no answer at 1008 rows, and is one beside them, which no rule says", "give --rows less than 1008, "},
	} {
		rs, err := Ranges(numbered(tc.answer), 1<<20)
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) || !strings.HasPrefix(hint.Of(err), tc.hint) {
			t.Errorf("got %v (%s), %d ranges\nwant %s (%s)", err, hint.Of(err), len(rs), tc.want, tc.hint)
		}
	}
}

// TestRangesOfRandomRules: what is found answers as the rule does, at every row, whatever
// the thresholds are.
func TestRangesOfRandomRules(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		const rows = 30000
		// Up to 6 boxes with a multiple, each in front of the ones before.
		type box struct{ lo, hi, multiple int64 }
		boxes := []box{{1, rows, 1}}
		for range 1 + r.IntN(6) {
			lo := 1 + r.Int64N(1<<r.IntN(15))
			boxes = append(boxes, box{lo, lo + lo/10 + r.Int64N(2*lo), 1 << (r.IntN(10) % 7)})
		}
		answer := func(m int64) int {
			for i, b := range slices.Backward(boxes) {
				if b.lo <= m && m <= b.hi && m%b.multiple == 0 {
					return i + 1
				}
			}
			return 0
		}
		rs, err := Ranges(numbered(answer), rows)
		if err != nil {
			t.Fatalf("%v: %v", boxes, err)
		}
		for m := int64(1); m <= rows; m++ {
			i := slices.IndexFunc(rs, func(r Range) bool { return r.Holds(m) })
			if i < 0 || rs[i].Variant.Family != fmt.Sprint(answer(m)) {
				t.Fatalf("%v: %d rows have the wrong answer in %s", boxes, m, rangesText(rs))
			}
		}
		again, err := Ranges(numbered(answer), rows)
		if err != nil || !slices.Equal(rs, again) {
			t.Errorf("another time it is %s: %v", rangesText(again), err)
		}
	}
}
