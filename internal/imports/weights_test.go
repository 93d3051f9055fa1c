package imports

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"normbench/internal/assert"
)

// A room is a row of ARCHITECTURE.md's table: a folder, what it is for, the lines of Go in it
// that are not tests, and the most that it may have.
type room struct {
	folder, purpose string
	lines, budget   int
}

var row = regexp.MustCompile("(?m)^\\| `([a-z0-9/.]+)/?` \\| (.*) \\| ([0-9]+) \\| ([0-9]+) \\|$")

// readRooms reads the table. The row of everything has the folder ".".
func readRooms(text string) (rooms []room) {
	for _, m := range row.FindAllStringSubmatch(text, -1) {
		lines, _ := strconv.Atoi(m[3])
		budget, _ := strconv.Atoi(m[4])
		rooms = append(rooms, room{strings.TrimSuffix(m[1], "/"), m[2], lines, budget})
	}
	return rooms
}

// weigh gives the lines of each room. A file counts for the longest folder that holds it; tests,
// and the packages that only tests use, count for "tests".
func weigh(rooms []room, lines map[string]int, support []string) (map[string]int, error) {
	sum := map[string]int{}
	for name, n := range lines {
		home := ""
		if path.Dir(name) == "." {
			home = "all"
		}
		for _, r := range rooms {
			if within(path.Dir(name), r.folder) && len(r.folder) > len(home) {
				home = r.folder
			}
		}
		for _, s := range support {
			if within(path.Dir(name), s) {
				home = "tests"
			}
		}
		if strings.HasSuffix(name, "_test.go") {
			home = "tests"
		}
		if home == "" {
			return nil, fmt.Errorf("no row of ARCHITECTURE.md has %s", name)
		}
		if home != "all" {
			sum[home] += n
		}
		if home != "tests" {
			sum["all"] += n
		}
	}
	return sum, nil
}

// overweight names the rooms above their budgets, and those whose lines in the table are a tenth
// off.
func overweight(rooms []room, sum map[string]int) (bad []string) {
	for _, r := range rooms {
		n := sum[r.folder]
		switch {
		case n > r.budget:
			bad = append(bad, fmt.Sprintf("%s has %d lines, %d more than its budget", r.folder, n,
				n-r.budget))
		case n == 0:
			bad = append(bad, fmt.Sprintf("%s has no lines", r.folder))
		case 10*max(n-r.lines, r.lines-n) > n+100:
			bad = append(bad, fmt.Sprintf("%s has %d lines, the table says %d: go test "+
				"./internal/imports -update", r.folder, n, r.lines))
		}
	}
	return bad
}

// TestWeights: no room is heavier than ARCHITECTURE.md grants. A change that needs more says so by
// changing the budget, where a reviewer sees it.
func TestWeights(t *testing.T) {
	root := filepath.Join("..", "..")
	page := filepath.Join(root, "ARCHITECTURE.md")
	text := assert.File(t, page)
	rooms := readRooms(string(text))
	lines := map[string]int{}
	for _, f := range parse(t, root) {
		b := assert.File(t, filepath.Join(root, f.name))
		lines[f.name] = bytes.Count(b, []byte("\n"))
	}
	sum, err := weigh(rooms, lines, []string{"kernels/devicetest", "internal/durable/powercut",
		"internal/assert"})
	assert.NoError(t, err)
	if *assert.Update {
		for _, r := range rooms {
			old := fmt.Sprintf("| `%s/` | %s | %d | %d |", r.folder, r.purpose, r.lines, r.budget)
			made := fmt.Sprintf("| `%s/` | %s | %d | %d |", r.folder, r.purpose, sum[r.folder],
				r.budget)
			if !bytes.Contains(text, []byte(old)) {
				old, made = strings.Replace(old, "/`", "`", 1), strings.Replace(made, "/`", "`", 1)
			}
			text = bytes.Replace(text, []byte(old), []byte(made), 1)
		}
		assert.NoError(t, os.WriteFile(page, text, 0o644))
		return
	}
	for _, s := range overweight(rooms, sum) {
		t.Error(s)
	}
}
