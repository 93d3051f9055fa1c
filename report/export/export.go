// Package export writes records in the formats of other tools: kernel_tuner's
// cache, the T4 results of the auto-tuning community, and Go's benchmark format,
// which benchstat reads.
package export

import (
	"cmp"
	"errors"
	"fmt"
	"normbench/internal/durable"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/sweep/record"
)

// The formats.
const (
	KTCache  = "kt-cache"
	T4       = "t4"
	Benchfmt = "benchfmt"
)

// CheckFormat says what is wrong with the name of a format, or nil.
func CheckFormat(f string) error {
	if f != KTCache && f != T4 && f != Benchfmt {
		return hint.Errorf("use kt-cache, t4 or benchfmt", "unknown export format %q", f)
	}
	return nil
}

// A Problem is all that is known of one problem on one device.
type Problem struct {
	Problem kernels.Problem
	Run     *record.Run // of its first record
	Stream  []float64   // samples, microseconds
	Records []*record.Record
}

// Load reads records for export: of each variant the last record, that of the
// finals before that of a grid before what a search saw on its way. Records of
// several devices or of several versions of a family do not mix in one file of
// those tools, so they are an error.
func Load(path string) ([]*Problem, record.Notes, error) {
	var list []*Problem
	at := map[kernels.Problem]*Problem{}
	type key struct {
		p kernels.Problem
		v kernels.Variant
	}
	place := map[key]int{}
	phase := map[key]int{}
	sources := map[string]string{}
	device := ""
	notes, err := record.Read(path, func(r *record.Record, run *record.Run) error {
		if device == "" {
			device = run.Device.ID
		}
		if run.Device.ID != device {
			return hint.Errorf("export the records of each device by themselves", "records of %s among those of %s", run.Device.ID, device)
		}
		if s, ok := sources[r.Family]; ok && s != r.Source && r.Family != record.Stream {
			return hint.Errorf("sweep into a new folder, and export that", "records of two versions of %s, %s and %s", r.Family, s, r.Source)
		}
		sources[r.Family] = r.Source
		p := at[r.Problem]
		if p == nil {
			p = &Problem{Problem: r.Problem, Run: run}
			at[r.Problem] = p
			list = append(list, p)
		}
		if r.Family == record.Stream {
			p.Stream = r.SamplesUS
			return nil
		}
		k := key{r.Problem, r.Variant()}
		rank := map[string]int{record.PhaseSearch: 0, "": 1, record.PhaseFinal: 2}[run.Protocol.Phase]
		if i, ok := place[k]; ok {
			if rank >= phase[k] {
				p.Records[i], phase[k] = r, rank
			}
			return nil
		}
		place[k], phase[k] = len(p.Records), rank
		p.Records = append(p.Records, r)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	list = slices.DeleteFunc(list, func(p *Problem) bool { return len(p.Records) == 0 })
	slices.SortFunc(list, func(a, b *Problem) int { return record.CompareProblems(a.Problem, b.Problem) })
	return list, notes, nil
}

// knobs are those that any of the problem's configs sets, in label order.
func (p *Problem) knobs() []*kernels.Knob {
	var ks []*kernels.Knob
	for _, k := range kernels.Knobs() {
		if slices.ContainsFunc(p.Records, func(r *record.Record) bool { _, ok := r.Config.Lookup(k); return ok }) {
			ks = append(ks, k)
		}
	}
	return ks
}

// Folder names a problem's folder in lower case, which the tools of
// autotuning_methodology try first: rmsnorm_bwd_bf16_4096x8192.
func Folder(p kernels.Problem) string {
	parts := strings.SplitN(p.String(), "/", 4)
	return strings.ToLower(fmt.Sprintf("%s_%s_%s_%s", parts[0], parts[1], parts[3], parts[2]))
}

// WriteFiles writes one file per problem, as OUT/problem/device.json, and one per family
// of a problem that has several, as OUT/problem_family/device.json, each whole or not at
// all, and returns how many.
func WriteFiles(out, format string, problems []*Problem) (int, error) {
	failed := func(err error) error { return hint.Errorf(durable.Help(err), "export to %s: %w", out, err) }
	if err := os.MkdirAll(out, 0o755); err != nil {
		return 0, failed(err)
	}
	root, err := os.OpenRoot(out) // the names below it come from a file
	if err != nil {
		return 0, failed(err)
	}
	defer root.Close()
	n := 0
	one := func(p *Problem, dir string) error {
		data, name := kt(p), p.Run.Device.ID+".json"
		if format == T4 {
			data, name = t4(p), p.Run.Device.ID+"_T4.json"
		}
		err := root.MkdirAll(dir, 0o755)
		if err == nil {
			err = write(root, filepath.Join(dir, name), data)
		}
		if err != nil {
			return failed(err)
		}
		n++
		return nil
	}
	for _, p := range problems {
		if err := one(p, Folder(p.Problem)); err != nil {
			return 0, err
		}
		families := p.byFamily()
		if len(families) < 2 {
			continue
		}
		for _, f := range families {
			family := strings.ReplaceAll(f.Records[0].Family, "/", "_")
			if err := one(f, Folder(p.Problem)+"_"+strings.ToLower(family)); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

// write replaces a file below root, whole or not at all.
func write(root *os.Root, name string, data []byte) error {
	part := fmt.Sprintf("%s.%d.part", name, os.Getpid())
	f, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = root.Rename(part, name)
	}
	if err != nil {
		root.Remove(part)
	}
	return err
}

// fraction is the part of all output elements that are within tolerance.
func fraction(r *record.Record) float64 {
	if r.Check == nil {
		if r.Status == kernels.StatusOK {
			return 1
		}
		return 0
	}
	var all, bad int64
	for _, o := range r.Check.Outputs {
		all, bad = all+o.Elems, bad+o.Bad
	}
	if all == 0 {
		return 0
	}
	return float64(all-bad) / float64(cmp.Or(all, 1))
}
