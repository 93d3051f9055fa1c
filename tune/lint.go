package tune

import (
	"fmt"
	"maps"
	"slices"

	"normbench/kernels"
	"normbench/kernels/families"
)

// Lint lists what is wrong with a table today, for a device: families and knobs that r lacks, configs
// that are refused, entries that are not proven faster, sources that have changed.
func (t *TunedTable) Lint(r *kernels.Registry, d kernels.DeviceInfo) (found []string) {
	source := families.NewIdentity(r, d.Kind).SourceOf
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if t.Device.ID != d.ID {
		add("the table is of %s, not of %s", t.Device.ID, d.ID)
	}
	if t.Device.SMs < 1 {
		add("its device has %d sms: nothing that depends on their number can be looked up", t.Device.SMs)
	}
	if len(t.Entries) == 0 && t.Map == nil {
		add("empty: it has no entry and no map")
	}
	told := map[string]bool{}
	for _, x := range t.Entries {
		if _, _, _, err := r.Resolve(x.Problem, x.Variant(), d); err != nil {
			add("%s: %v", x.Problem, err)
			continue
		}
		if !x.IsProven() {
			add("%s: %s is not provably faster than the base: sweep again, or delete the entry",
				x.Problem, x.Variant())
		}
		if now := source(x.Family); now != "" && now != x.Source && !told[x.Family+x.Source] {
			told[x.Family+x.Source] = true
			add("stale: the sources of %s are %s, and entries such as %s are from %s",
				x.Family, now, x.Problem, x.Source)
		}
	}
	if t.Map != nil {
		for _, name := range slices.Sorted(maps.Keys(t.Map.Sources)) {
			was, now := t.Map.Sources[name], source(name)
			if now != "" && now != was { // without a family it is Unknown's
				add("stale: the sources of %s are %s, and its cells are from %s", name, now, was)
			}
		}
		if len(t.Map.Rasters) == 0 {
			add("empty: the map has no raster")
		}
		found = slices.Concat(found, t.Map.UnknownConfigs(r), t.Map.RefusedConfigs(r, d))
	}
	return found
}
