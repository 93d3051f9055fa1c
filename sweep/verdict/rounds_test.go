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
		"a,b\n1,1e400\n", "a,A\n", "a,c\n1,1\n", "a,b,cell\n1,1,x\n2,2,y\n",
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
				assert.Must(t, r.ok(), "%+v", r)
			}
		}
	})
}
