// Package powercut is for tests. It records what a writer does to the file system. Then it replays
// what a cut of the power behind each step may leave: pages and sectors that are there or not.
package powercut

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"normbench/internal/durable"
)

// A node is a file or a folder of a simulated disk.
type node struct {
	folder       bool
	data, synced []byte
}

// A disk is a simulated disk: what programs see, and what a cut of the power leaves.
type disk struct {
	names   map[string]*node // as programs see them
	kept    map[string]*node // as a cut leaves them at least
	pending []change         // of names whose folders were not synced since
}

type change struct {
	durable.Operation
	n *node
}

func (c change) on(names map[string]*node) {
	switch c.Op {
	case "remove":
		delete(names, c.Path)
	case "rename":
		names[c.To] = c.n
		delete(names, c.Path)
	default:
		names[c.Path] = c.n
	}
}

func (d *disk) step(s durable.Operation) {
	n := d.names[s.Path]
	switch s.Op {
	case "mkdir", "create":
		if n != nil {
			return
		}
		if parent := filepath.Dir(s.Path); d.names[parent] == nil {
			d.step(durable.Operation{Op: "mkdir", Path: parent})
		}
		n = &node{folder: s.Op == "mkdir"}
		fallthrough
	case "rename", "remove":
		c := change{s, n}
		c.on(d.names)
		d.pending = append(d.pending, c)
	case "write":
		if s.At < int64(len(n.data)) {
			n.data = n.data[:s.At:s.At] // what is synced keeps its bytes
		}
		n.data = append(n.data, s.Data...)
	case "truncate":
		n.data = n.data[:s.At:s.At]
	case "sync":
		n.synced = n.data
	case "syncdir":
		d.pending = slices.DeleteFunc(d.pending, func(c change) bool {
			in := filepath.Dir(c.Path) == s.Path
			if in {
				c.on(d.kept)
			}
			return in
		})
	}
}

// A cut decides which unsynced changes a cut of the power leaves.
type cut struct {
	*rand.Rand
	unit int     // bytes of a sector or a page, each of which is there or not
	p    float64 // that something is there
}

func (c cut) keeps() bool { return c.Float64() < c.p }

// content computes what is left of a file. Bytes that were never written are zeros.
func (c cut) content(n *node) []byte {
	b := slices.Clone(n.synced)
	if c.keeps() && len(n.data) != len(n.synced) {
		size := len(n.data)
		if size > len(b) && c.IntN(2) == 0 {
			size = len(b) + c.IntN(size-len(b)+1)
		}
		b = append(b, make([]byte, max(size-len(b), 0))...)[:size]
	}
	for at := 0; at < min(len(b), len(n.data)); at += c.unit {
		if end := min(at+c.unit, len(b), len(n.data)); c.keeps() {
			copy(b[at:end], n.data[at:end])
		}
	}
	return b
}

// leave writes what a cut leaves of root into another folder.
func (d *disk) leave(t *testing.T, root, to string, c cut) {
	kept := maps.Clone(d.kept)
	lost := map[string]bool{} // folders whose later changes are lost, too
	for _, x := range d.pending {
		if dir := filepath.Dir(x.Path); !lost[dir] && c.keeps() {
			x.on(kept)
		} else {
			lost[dir] = true
		}
	}
	for _, path := range slices.Sorted(maps.Keys(kept)) {
		n := kept[path]
		if parent := kept[filepath.Dir(path)]; path != root && (parent == nil || !parent.folder) {
			delete(kept, path)
			continue
		}
		at := filepath.Join(to, strings.TrimPrefix(path, root))
		var err error
		if n.folder {
			err = os.MkdirAll(at, 0o755)
		} else {
			err = os.WriteFile(at, c.content(n), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// powerCuts is how many cuts at random there are behind each step; scripts/nightly.sh has more. Where
// it is not set the power is cut behind mostSteps at most.
const (
	powerCuts = "NORMBENCH_POWERCUTS"
	mostSteps = 24
)

// Cuts watches a writer, and cuts the power behind each of its steps in many ways. ack is called by
// the writer when something is promised to be there; check looks at what a cut left of root. No other
// goroutine of the program may write meanwhile.
func Cuts(t *testing.T, write func(root string, ack func()), check func(root string, acked int) error) {
	root := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	var steps []durable.Operation
	var mu sync.Mutex
	note := func(s durable.Operation) {
		mu.Lock()
		defer mu.Unlock()
		steps = append(steps, s)
	}
	durable.Watch = func(s durable.Operation) { // a cache elsewhere may be written, too
		if s.Path == root || strings.HasPrefix(s.Path, root+string(filepath.Separator)) {
			note(s)
		}
	}
	write(root, func() { note(durable.Operation{Op: "ack"}) })
	durable.Watch = nil
	n, _ := strconv.Atoi(cmp.Or(os.Getenv(powerCuts), "6"))
	states, start, stride := 0, time.Now(), 1
	if os.Getenv(powerCuts) == "" { // else behind every step
		stride += len(steps) / mostSteps
	}
	d := &disk{names: map[string]*node{root: {folder: true}}, kept: map[string]*node{root: {folder: true}}}
	acked := 0
	for k := range len(steps) + 1 {
		if k > 0 {
			if d.step(steps[k-1]); steps[k-1].Op == "ack" {
				acked++
			}
		}
		if (len(steps)-k)%stride > 0 {
			continue
		}
		for i := range n + 2 {
			c := cut{rand.New(rand.NewPCG(uint64(k), uint64(i))), []int{4096, 512}[i%2],
				[]float64{0, 1, 0.5, 0.9}[min(i, 2+i%2)]}
			to := filepath.Join(t.TempDir(), "left")
			if err := os.Mkdir(to, 0o755); err != nil {
				t.Fatal(err)
			}
			d.leave(t, root, to, c)
			states++
			if err := check(to, acked); err != nil {
				t.Fatalf("cut %d behind step %d of %d, %v: %v", i, k, len(steps), steps[max(k-1, 0):k], err)
			}
			os.RemoveAll(to)
		}
	}
	t.Logf("%d steps, %d states in %.1f s", len(steps), states, time.Since(start).Seconds())
}
