package tune

import (
	"path/filepath"
	"sync"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/durable"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/launchmap"
)

// Whoever replaces a half of a table keeps the other, also where both do so at once.
func TestUpdateKeepsTheOtherHalf(t *testing.T) {
	p := durable.Place{Name: filepath.Join(t.TempDir(), FileName)}
	first := table(t)
	first.Device = devicetest.H200()
	assert.NoError(t, first.Write(p))
	m := &launchmap.Map{Device: first.Device, Rasters: []launchmap.Raster{*launchmap.Blank(launchmap.Classes()[0], 16,
		first.Device.SMs)}}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			err := Update(p, func(old *TunedTable) (*TunedTable, error) {
				half := *old
				if i%2 == 0 {
					half.Map = m
				} else {
					half.Noise += 0.25
				}
				return &half, nil
			})
			assert.That(t, err == nil, "%v", err)
		})
	}
	wg.Wait()
	got, err := Read(p.String())
	assert.Must(t, err == nil && got.Map != nil && len(got.Map.Rasters) == 1 &&
		got.Noise == first.Noise+2.5 && len(got.Entries) == len(first.Entries), "%v, %+v", err, got)
	assert.Equal(t, got.Map.Device.ID, first.Device.ID, "the map has no device")
	merged, _ := merge(got, first, asOf(got))
	assert.That(t, merged.Map != nil, "a sweep's table loses the map")
}
