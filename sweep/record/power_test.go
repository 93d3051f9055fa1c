package record

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/durable"
	"normbench/internal/durable/powercut"
)

// Records that were appended outlive a power cut whatever it leaves, in new folders too; an append
// that was not is there whole or not at all, and the next writer goes on. learn packs them.
func TestPowerCutKeepsAppendedRecords(t *testing.T) {
	run := testRun("r")
	one := func(i int) *Record {
		r := testRecord(run, i)
		for len(r.SamplesUS) < 200 {
			r.SamplesUS = append(r.SamplesUS, r.SamplesUS...)
		}
		return r
	}
	appends := [][]Line{{run}, {one(1)}, {one(2), one(3), one(4), one(5), one(6)}, {one(7)}}
	holds := []int{0, 0, 1, 6, 7}
	powercut.Cuts(t, func(root string, ack func()) {
		w, _, err := OpenWriter(filepath.Join(root, "new", "out"), "device")
		assert.NoError(t, err)
		for _, vs := range appends {
			assert.NoError(t, w.AppendAll(vs...))
			ack()
		}
		w.Close()
		assert.NoError(t, Pack(durable.Place{Name: w.Path()}))
	}, func(root string, acked int) error {
		w, _, err := OpenWriter(filepath.Join(root, "new", "out"), "device")
		if err != nil {
			return err
		}
		defer w.Close()
		if got := len(w.Records().LatestOutcomes()); got < holds[acked] || !slices.Contains(holds, got) {
			return fmt.Errorf("%d records, %d were promised", got, holds[acked])
		}
		return nil
	})
}

// A file that is written whole (tuned tables, maps, compares, plots, pages) is the old one or the
// new one.
func TestPowerCutLeavesTheOldFileOrTheNew(t *testing.T) {
	texts := []string{"", strings.Repeat("old ", 3000), strings.Repeat("newer ", 2500), "short"}
	powercut.Cuts(t, func(root string, ack func()) {
		assert.NoError(t, durable.MakeFolder(filepath.Join(root, "a", "b"), "device/deep"))
		for _, text := range texts[1:] {
			assert.NoError(t,
				(durable.Place{Root: filepath.Join(root, "a", "b"),
					Name: "device/deep/tuned.json"}).WriteFrom(strings.NewReader(text)))
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
