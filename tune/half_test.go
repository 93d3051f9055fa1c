package tune

import (
	"path/filepath"
	"sync"
	"testing"

	"normbench/internal/durable"
	"normbench/kernels/devicetest"
	"normbench/kernels/rule"
)

// Whoever replaces a half of a table keeps the other, also where both do so at once.
func TestUpdateHalves(t *testing.T) {
	p := durable.Place{Name: filepath.Join(t.TempDir(), FileName)}
	first := table(t)
	first.Device = devicetest.H200()
	if err := first.Write(p); err != nil {
		t.Fatal(err)
	}
	m := &rule.Map{Device: first.Device, Rasters: []rule.Raster{*rule.Blank(rule.Classes()[0], 16, first.Device.SMs)}}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			err := Update(p, func(old *Table) (*Table, error) {
				half := *old
				if i%2 == 0 {
					half.Map = m
				} else {
					half.Noise += 0.25
				}
				return &half, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err := Read(p.String())
	if err != nil || got.Map == nil || len(got.Map.Rasters) != 1 || got.Noise != first.Noise+2.5 || len(got.Entries) != len(first.Entries) {
		t.Fatalf("%v, %+v", err, got)
	}
	if got.Map.Device.ID != first.Device.ID {
		t.Error("the map has no device")
	}
	merged, _, err := Merge(got, first, asOf(got))
	if err != nil || merged.Map == nil {
		t.Errorf("a sweep's table loses the map: %v", err)
	}
}
