package verdict

import (
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/hint"
)

// Bad rounds are one line with a hint; what passes can be judged.
func FuzzParseRounds(f *testing.F) {
	for _, s := range []string{
		"a,b,a2,stream,cell\n1,2,1,3,x\n1,2,1,3,y\n", "a,b,a\n1,2,3\n", "a,b\n1,NaN\n",
		"a,b\n\"1,2\n", "a,b,,\n1,2,,\n", "\xef\xbb\xbfa,b\n1,2\n3\n",
		`{"a":[1,2],"b":[1,2]}`, `[{"a":1,"b":NaN}]`, `[{"a":1,"b":2,"A":3}]`,
		`[{"a":1,"b":1e400}]`, `[{"a":1,"b":2,"crc":"00000000"}]`,
		`[{"a":1,"b":2,"cell":"x"},{"a":1,"b":2,"a2":1}]`, `[{"a":1,"b":2,"cell":{}}]`,
		`[{"a":1,"b":2},{"a":1,"b":2,"a2":1}]`, `[null]`, `[{"a\n":1,"a\n":2}]`, `[1e400]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cells, err := ParseRounds("f", data)
		if err != nil {
			assert.Must(t, hint.Of(err) != "" && !strings.Contains(err.Error(), "\n") &&
				strings.HasPrefix(err.Error(), "rounds f: "), "error %q, hint %q", err,
				hint.Of(err))
			return
		}
		names := map[string]bool{}
		for _, c := range cells {
			assert.Must(t, len(c.Rounds) != 0 && !names[c.Name], "%+v", cells)
			names[c.Name] = true
			for _, r := range c.Rounds {
				assert.Must(t, isTime(r.A) && isTime(r.B) && isTime(r.A2), "%+v", r)
			}
		}
	})
}
