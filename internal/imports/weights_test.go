package imports

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"normbench/internal/assert"
)

// row is one of ARCHITECTURE.md's table: a folder, what it is for, the lines of Go in it that are
// not tests, and the most that it may have.
var row = regexp.MustCompile("(?m)^(\\| `([a-z0-9/.]+?)/?` \\| .* \\| )([0-9]+)( \\| ([0-9]+) \\|)$")

// weigh gives the lines of each row's folder. A file counts for the longest folder that holds it;
// tests, and the packages that only tests use, count for "tests", all else for "all" too.
func weigh(t *testing.T, rows [][]string) map[string]int {
	sum := map[string]int{}
	for name := range parse(t) {
		home := ""
		for _, m := range rows {
			if within(name, m[2]) && len(m[2]) > len(home) {
				home = m[2]
			}
		}
		n := bytes.Count(assert.File(t, filepath.Join("..", "..", name)), []byte("\n"))
		switch {
		case strings.HasSuffix(name, "_test.go") || within(name, "kernels/devicetest",
			"internal/durable/powercut", "internal/assert"):
			sum["tests"] += n
		case path.Dir(name) == ".":
			sum["all"] += n
		default:
			assert.That(t, home != "", "no row of ARCHITECTURE.md has %s", name)
			sum[home] += n
			sum["all"] += n
		}
	}
	return sum
}

// TestWeights: no room is heavier than ARCHITECTURE.md grants. A change that needs more says so by
// changing the budget, where a reviewer sees it. No count of the table is a tenth off.
func TestWeights(t *testing.T) {
	page := filepath.Join("..", "..", "ARCHITECTURE.md")
	text := string(assert.File(t, page))
	rows := row.FindAllStringSubmatch(text, -1)
	sum := weigh(t, rows)
	if *assert.Update {
		text = row.ReplaceAllStringFunc(text, func(line string) string {
			m := row.FindStringSubmatch(line)
			return m[1] + strconv.Itoa(sum[m[2]]) + m[4]
		})
		assert.NoError(t, os.WriteFile(page, []byte(text), 0o644))
		return
	}
	for _, m := range rows {
		lines, _ := strconv.Atoi(m[3])
		budget, _ := strconv.Atoi(m[5])
		n := sum[m[2]]
		assert.That(t, 0 < n && n <= budget, "%s has %d lines of a budget of %d", m[2], n, budget)
		assert.That(t, 10*max(n-lines, lines-n) <= n+100, "%s has %d lines, the table says %d: "+
			"go test ./internal/imports -update", m[2], n, lines)
	}
	assert.That(t, sum["tests"] > 0 && len(rows) >= 30, "%d rows", len(rows))
}
