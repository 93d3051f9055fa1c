// Package export writes records in the formats of other tools: kernel_tuner's
// cache, and Go's benchmark format, which benchstat reads.
package export

import (
	"bytes"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/sweep/record"
)

// The formats.
const (
	KTCache  = "kt-cache"
	Benchfmt = "benchfmt"
)

// knobsOf returns the knobs that any of a problem's configs sets, in label order.
func knobsOf(p *record.ProblemRecords) (ks []*kernels.Knob) {
	for _, k := range kernels.Knobs() {
		has := func(r *record.Record) bool { _, ok := r.Config.Lookup(k); return ok }
		if slices.ContainsFunc(p.Records, has) {
			ks = append(ks, k)
		}
	}
	return ks
}

// knobValue returns the value of a knob in a record, or noKnob.
func knobValue(r *record.Record, k *kernels.Knob) int {
	if v, ok := r.Config.Lookup(k); ok {
		return v
	}
	return noKnob
}

// Folder names a problem's folder in lower case, as the tools around kernel_tuner look for it:
// rmsnorm_bwd_bf16_4096x8192.
func Folder(p kernels.Problem) string {
	parts := strings.SplitN(p.String(), "/", 4)
	return strings.ToLower(fmt.Sprintf("%s_%s_%s_%s", parts[0], parts[1], parts[3], parts[2]))
}

// WriteFiles writes caches of kernel_tuner: one file per problem, as OUT/problem/device.json, each
// whole or not at all, and returns how many.
func WriteFiles(out string, ps []*record.ProblemRecords) (int, error) {
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, p := range ps {
		g.Go(func() error {
			dir := Folder(p.Problem)
			err := durable.MakeFolder(out, dir) // of names that come from a file
			if err == nil {
				at := durable.Place{Root: out, Name: filepath.Join(dir, p.Run.Device.ID+".json"),
					Unsynced: true}
				err = at.WriteFrom(bytes.NewReader(kt(p)))
			}
			if err != nil {
				return hint.Errorf(durable.Help(err), "export to %s: %w", filepath.Join(out, dir),
					durable.Cause(err))
			}
			return nil
		})
	}
	return len(ps), g.Wait()
}
