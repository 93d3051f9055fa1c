package families

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"sync"

	"normbench"
	"normbench/kernels"
	"normbench/kernels/families/manifest"
	"normbench/kernels/launchmap"
)

// builtinMaps reads the maps of the tuned tables that are embedded in the program.
var builtinMaps = sync.OnceValue(func() []*launchmap.Map {
	names, err := fs.Glob(normbench.TunedTables, "results/*/tuned.json")
	var ms []*launchmap.Map
	for _, name := range names {
		var t struct {
			Device kernels.DeviceInfo
			Map    *launchmap.Map
		}
		text, bad := normbench.TunedTables.ReadFile(name)
		err = errors.Join(err, bad, json.Unmarshal(text, &t))
		if err == nil && t.Map != nil {
			t.Map.Device = t.Device
			err = t.Map.CheckValid()
			ms = append(ms, t.Map)
		}
	}
	if err != nil {
		panic(err) // a test reads them first
	}
	return ms
})

// NewRegistry makes the registry of all families, with the defaults of some maps. Maps choose among
// configs and change no kernel, so they are part of no family's sources.
func NewRegistry(ms ...*launchmap.Map) *kernels.Registry {
	return ExtendRegistry(&kernels.Registry{File: File}, ms...)
}

// ExtendRegistry is NewRegistry with the families of r that are not ours, such as a user's.
func ExtendRegistry(r *kernels.Registry, ms ...*launchmap.Map) *kernels.Registry {
	return extendRegistry(r, func() []*launchmap.Map { return ms })
}

// extendRegistry is ExtendRegistry with maps that are only read when a default is asked for.
func extendRegistry(r *kernels.Registry, ms func() []*launchmap.Map) *kernels.Registry {
	analytic := AnalyticRegistry(r)
	var books sync.Map // device to *launchmap.Book
	book := func(d kernels.DeviceInfo) *launchmap.Book {
		b, ok := books.Load(d)
		if !ok {
			b, _ = books.LoadOrStore(d, launchmap.NewBook(launchmap.Ladder(ms(), &d), d, analytic))
		}
		return b.(*launchmap.Book)
	}
	out := &kernels.Registry{File: r.File, BaseOf: r.BaseOf}
	out.Default = func(p kernels.Problem, d kernels.DeviceInfo) kernels.Variant {
		return book(d).Answer(p).Variant
	}
	for _, f := range analytic.Families {
		mapped := *f
		mapped.Base = func(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
			return book(d).Base(f, p)
		}
		out.Families = append(out.Families, &mapped)
	}
	return out
}

// ours makes the families of this package: those in Go, then those of manifests.
var ours = sync.OnceValue(func() (list []*kernels.Family) {
	for _, s := range kernels.Ops() {
		list = append(list, plainFamily(s.Op, kernels.Fwd), plainFamily(s.Op, kernels.Bwd),
			stream(s.Op, kernels.Fwd), stream(s.Op, kernels.Bwd))
		if hasDesigns(s.Op) {
			list = append(append(list, driverCopy(s.Op)), rulerFamilies(s.Op)...)
		}
	}
	for _, f := range list {
		addHeaders(f)
	}
	texts := map[string]string{}
	names, err := fs.Glob(files, "*.[cy]*")
	for _, name := range names {
		texts[name], _ = File(name)
	}
	made, bad := manifest.LoadOwn(&kernels.Registry{Families: list, File: File}, texts, stages)
	if err = cmp.Or(err, bad); err != nil {
		panic(err) // they are part of the program
	}
	return append(list, made...)
})

// AnalyticRegistry makes a registry of our families, and those of r that are not ours, whose defaults
// and bases know no map. If r measures one family against its own default, so does the result.
func AnalyticRegistry(r *kernels.Registry) *kernels.Registry {
	out := &kernels.Registry{File: r.File}
	by := map[string]*kernels.Family{}
	add := func(f *kernels.Family) {
		by[f.Name] = f
		out.Families = append(out.Families, f)
	}
	for _, f := range ours() {
		add(f)
	}
	for _, f := range r.Families {
		if by[f.Name] == nil {
			add(f)
		}
	}
	out.Default = func(p kernels.Problem, d kernels.DeviceInfo) kernels.Variant {
		var v kernels.Variant
		runs := func(design string) bool {
			f := by[kernels.FamilyName(p.Op, p.Pass, design)]
			v = kernels.Variant{Family: f.Name, Config: f.Base(p, d)}
			return f.CanServe(p) && f.Refuse(p, v.Config, d) == nil
		}
		design := "plain"
		if hasDesigns(p.Op) {
			design = analyticDefault(p, d, runs)
		}
		if v.Family != kernels.FamilyName(p.Op, p.Pass, design) {
			runs(design)
		}
		return v
	}
	if r.BaseOf != "" {
		against, err := out.Against(r.BaseOf)
		if err != nil {
			panic(err) // r has the family
		}
		return against
	}
	return out
}

// hasDesigns says whether there are fast designs for the op; others have plain kernels only.
func hasDesigns(op kernels.Op) bool { return op == kernels.RMSNorm || op == kernels.LayerNorm }

// Book makes the book of a rung for a device, with the families of r behind it. If r measures one family
// against its own default, the book answers with no other.
func Book(r *kernels.Registry, s launchmap.Rung, d kernels.DeviceInfo) *launchmap.Book {
	return launchmap.NewBook(s, d, AnalyticRegistry(r))
}

// Rung finds which of the maps embedded in the program answers for a device.
func Rung(d kernels.DeviceInfo) launchmap.Rung { return launchmap.Ladder(builtinMaps(), &d) }
