package record_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"normbench/internal/durable"
	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/sweep/record"
)

// A node is a file or a folder of a simulated disk.
type node struct {
	folder       bool
	data, synced []byte
}

// A disk is what a cut of the power finds.
type disk struct {
	names   map[string]*node // as programs see them
	kept    map[string]*node // as a cut leaves them at least
	pending []change         // of names whose folders were not synced since
}

type change struct {
	durable.Step
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

func (d *disk) step(s durable.Step) {
	n := d.names[s.Path]
	switch s.Op {
	case "mkdir", "create":
		if n != nil {
			return
		}
		if parent := filepath.Dir(s.Path); d.names[parent] == nil {
			d.step(durable.Step{Op: "mkdir", Path: parent})
		}
		n = &node{folder: s.Op == "mkdir"}
		fallthrough
	case "rename", "remove":
		c := change{s, n}
		c.on(d.names)
		d.pending = append(d.pending, c)
	case "write":
		n.data = append(n.data[:s.At:s.At], s.Data...)
	case "truncate":
		n.data = n.data[:s.At:s.At]
	case "sync":
		n.synced = slices.Clone(n.data)
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

// A cut decides what of what is not synced is there.
type cut struct {
	*rand.Rand
	unit int     // bytes of a sector or a page, each of which is there or not
	p    float64 // that something is there
}

func (c cut) keeps() bool { return c.Float64() < c.p }

// content is what is left of a file. What was never written is zeros.
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

// replay has the steps up to a cut, and puts what is left of root below another folder.
func replay(t *testing.T, steps []durable.Step, root, to string, c cut) {
	d := &disk{names: map[string]*node{root: {folder: true}}, kept: map[string]*node{root: {folder: true}}}
	for _, s := range steps {
		d.step(s)
	}
	lost := map[string]bool{} // folders whose later changes are lost, too
	for _, x := range d.pending {
		if dir := filepath.Dir(x.Path); !lost[dir] && c.keeps() {
			x.on(d.kept)
		} else {
			lost[dir] = true
		}
	}
	for _, path := range slices.Sorted(maps.Keys(d.kept)) {
		n := d.kept[path]
		if parent := d.kept[filepath.Dir(path)]; path != root && (parent == nil || !parent.folder) {
			delete(d.kept, path)
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

// powerCuts is how many cuts at random there are behind each step; scripts/nightly.sh has more.
const powerCuts = "NORMBENCH_POWERCUTS"

// cuts watches a writer, and cuts the power behind each of its steps in many ways. ack is called by
// the writer when something is promised to be there; check looks at what a cut left of root.
func cuts(t *testing.T, write func(root string, ack func()), check func(root string, acked int) error) {
	root := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	var steps []durable.Step
	durable.Watch = func(s durable.Step) { steps = append(steps, s) }
	write(root, func() { steps = append(steps, durable.Step{Op: "ack"}) })
	durable.Watch = nil
	n, _ := strconv.Atoi(cmp.Or(os.Getenv(powerCuts), "6"))
	states, start := 0, time.Now()
	for k := range len(steps) + 1 {
		acked := 0
		for _, s := range steps[:k] {
			if s.Op == "ack" {
				acked++
			}
		}
		for i := range n + 2 {
			c := cut{rand.New(rand.NewPCG(uint64(k), uint64(i))), []int{4096, 512}[i%2], []float64{0, 1, 0.5, 0.9}[min(i, 2+i%2)]}
			to := filepath.Join(t.TempDir(), "left")
			if err := os.Mkdir(to, 0o755); err != nil {
				t.Fatal(err)
			}
			replay(t, steps[:k], root, to, c)
			states++
			if err := check(to, acked); err != nil {
				t.Fatalf("cut %d behind step %d of %d, %v: %v", i, k, len(steps), steps[max(k-1, 0):k], err)
			}
			os.RemoveAll(to)
		}
	}
	t.Logf("%d steps, %d states in %.1f s", len(steps), states, time.Since(start).Seconds())
}

// Records that were appended outlive a power cut whatever it leaves, in new folders too; an append
// that was not is there whole or not at all, and the next writer goes on. learn packs them.
func TestPowerCutRecords(t *testing.T) {
	run := record.Run{ID: "r", Time: time.Unix(1e9, 0), Tool: "test", Device: devicetest.H200(), Protocol: record.Protocol{Name: "cold", Samples: 200, Flush: 1, Cold: true}}
	p, err := kernels.ParseProblem("rmsnorm/fwd/64x256/bf16")
	if err != nil {
		t.Fatal(err)
	}
	one := func(i int) *record.Record {
		r := &record.Record{Run: "r", Time: run.Time, Problem: p, Family: "rms_fwd/f" + strconv.Itoa(i), Status: kernels.StatusOK, Source: "s", Seed: 1,
			Check: &kernels.Check{Repeats: 1, Outputs: []kernels.OutputCheck{{Name: "y", Elems: 1}}}, StreamUS: 1, Bytes: p.Bytes()}
		for k := range 200 {
			r.SamplesUS = append(r.SamplesUS, 10+float64((k*i)%7)/1000)
		}
		r.Key = record.Key(p, r.Variant(), run.Device, record.Code{Source: "s"}.String(), run.Protocol)
		return r
	}
	appends := [][]record.Line{{&run}, {one(1)}, {one(2), one(3), one(4), one(5), one(6)}, {one(7)}}
	holds := []int{0, 0, 1, 6, 7}
	cuts(t, func(root string, ack func()) {
		w, _, err := record.OpenWriter(filepath.Join(root, "new", "out"), "device")
		if err != nil {
			t.Fatal(err)
		}
		for _, vs := range appends {
			if err := w.AppendAll(vs...); err != nil {
				t.Fatal(err)
			}
			ack()
		}
		w.Close()
		text, err := os.ReadFile(w.Path())
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write(text)
		z.Close()
		plain := durable.Place{Name: w.Path()}
		if err := plain.In(record.FileName + ".gz").WriteFrom(&b); err != nil {
			t.Fatal(err)
		}
		if err := plain.Remove(); err != nil {
			t.Fatal(err)
		}
	}, func(root string, acked int) error {
		w, _, err := record.OpenWriter(filepath.Join(root, "new", "out"), "device")
		if err != nil {
			return err
		}
		defer w.Close()
		if got := len(w.Records().Latest()); got < holds[acked] || !slices.Contains(holds, got) {
			return fmt.Errorf("%d records, %d were promised", got, holds[acked])
		}
		return nil
	})
}

// A file that is written whole (tuned tables, maps, compares, plots, pages) is the old one or the
// new one.
func TestPowerCutFile(t *testing.T) {
	texts := []string{"", strings.Repeat("old ", 3000), strings.Repeat("newer ", 2500), "short"}
	cuts(t, func(root string, ack func()) {
		if err := durable.MakeFolder(filepath.Join(root, "a", "b"), "device/deep"); err != nil {
			t.Fatal(err)
		}
		for _, text := range texts[1:] {
			if err := (durable.Place{Root: filepath.Join(root, "a", "b"), Name: "device/deep/tuned.json"}).WriteFrom(strings.NewReader(text)); err != nil {
				t.Fatal(err)
			}
			ack()
		}
	}, func(root string, acked int) error {
		b, err := os.ReadFile(filepath.Join(root, "a", "b", "device", "deep", "tuned.json"))
		if at := slices.Index(texts, string(b)); at < acked || acked > 0 && err != nil {
			return fmt.Errorf("it has text %d, %d was promised: %v", at, acked, err)
		}
		return nil
	})
}
