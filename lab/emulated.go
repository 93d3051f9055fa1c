package lab

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devices/emulate"
	"normbench/kernels/launchmap"
	"normbench/sweep"
	"normbench/sweep/verify"
	"normbench/tune/ref"
)

// noSpace helps where the emulator's programs have no room.
const noSpace = "free some space there, or point $TMPDIR at another folder"

const (
	// emulatedShapes is how many shapes each REF or family is emulated on, for each op and pass.
	emulatedShapes = 3
	// emulatedElements is the most that one of them may have: a second's work.
	emulatedElements = 32 << 10
)

// smallShapes are emulated where too few of the shapes asked for are small enough: rows that no
// vector divides, rows longer than a CTA holds at once, and whole tiles of an fp8 transpose. From six rows
// on the special ones stand among unit rows, so there are fewer draws (kernels.CheckDraws).
var smallShapes = [][2]int64{{21, 72}, {9, 541}, {6, 3074}, {48, 512}, {16, 1024}, {64, 128}}

// emulatedGPU is an H200 of three SMs, so that a CTA has several rows or tiles of a small problem.
func emulatedGPU() kernels.DeviceInfo {
	d := launchmap.KnownDevices()[0].DeviceInfo
	d.SMs, d.Clusters = 3, [4]int{2, 1, 1, 1}
	return d
}

// emulatedRuns is how often an emulated variant runs: its CTAs in order, then from last to first. More
// runs would be the same again.
const emulatedRuns = 2

// emulatedTasks lays out what the emulator runs of refs, for each op and pass of ps: at the small
// ones of its shapes, all that are typed and up to three of others, then at smallShapes until there
// are three. Where there are several sets of types and options, each shape has another one. none are
// the REFs without any.
func (l *Lab) emulatedTasks(refs []*ref.Ref, ps []kernels.Problem, info kernels.DeviceInfo,
	seen *coverage) (tasks []sweep.Task, none []string) {
	at := map[kernels.Problem]int{} // in tasks
	found := map[string]bool{}
	add := func(p kernels.Problem, vs []kernels.Variant) {
		if _, ok := at[p]; !ok {
			at[p] = len(tasks)
			tasks = append(tasks, sweep.Task{Problem: p})
		}
		t := &tasks[at[p]]
		for _, v := range vs {
			if !slices.Contains(t.Variants, v) {
				t.Variants = append(t.Variants, v)
			}
		}
	}
	for i, first := range ps {
		alike := func(p kernels.Problem) bool { return p.Op == first.Op && p.Pass == first.Pass }
		if slices.IndexFunc(ps, alike) < i {
			continue
		}
		var shapes [][2]int64
		var classes []kernels.Problem // without their shapes
		for _, p := range ps[i:] {
			if !alike(p) {
				continue
			}
			if s := [2]int64{p.M, p.N}; p.M*p.N <= emulatedElements && !slices.Contains(shapes, s) {
				shapes = append(shapes, s)
			}
			if p.M, p.N = 0, 0; !slices.Contains(classes, p) {
				classes = append(classes, p)
			}
		}
		for _, s := range smallShapes {
			if !slices.Contains(shapes, s) {
				shapes = append(shapes, s)
			}
		}
		for _, r := range refs {
			picked := 0
			for _, s := range shapes {
				for i := 0; i < len(classes) && (picked < emulatedShapes || seen.typed[s]); i++ {
					p := classes[(picked+i)%len(classes)]
					p.M, p.N = s[0], s[1]
					vs, err := seen.checkedVariants(l)(r, p, info)
					if len(vs) > 0 {
						add(p, vs)
						found[r.Text] = true
						seen.add(r, p)
						picked++
						break
					}
					seen.refuse(r, p, err)
				}
			}
		}
	}
	for _, r := range refs {
		if !found[r.Text] {
			none = append(none, r.Text)
		}
	}
	return tasks, none
}

// emulatedRefs are the REFs whose CUDA code is emulated beside what the host ran: those asked for.
// Without REFs they are the families of tasks and the user's guests. Families stand also for REFs
// that are tuned for a device, which have no answer at the small shapes.
func (l *Lab) emulatedRefs(asked []*ref.Ref, guests []*kernels.Family, tasks []sweep.Task) (
	refs []*ref.Ref, err error) {
	tuned := func(r *ref.Ref) bool { return r.Kind == ref.Tuned || r.Kind == ref.Recorded }
	var names []string
	if len(asked) == 0 || slices.ContainsFunc(asked, tuned) {
		for _, t := range tasks {
			for _, v := range t.Variants {
				names = append(names, v.Family)
			}
		}
	}
	if len(asked) == 0 {
		for _, f := range guests {
			names = append(names, f.Name)
		}
	}
	refs = slices.DeleteFunc(slices.Clone(asked),
		func(r *ref.Ref) bool { return tuned(r) || r.Kind == ref.Peer })
	for _, name := range names {
		if slices.ContainsFunc(refs, func(r *ref.Ref) bool { return r.Text == name }) {
			continue
		}
		r, err := l.Parse(name)
		if err != nil {
			return nil, err
		}
		refs = append(refs, r)
	}
	return refs, nil
}

// emulate checks the CUDA code of refs on small problems. Without a C++ compiler it checks
// nothing, and the verification has them as not run.
func (l *Lab) emulate(v *Verification, refs []*ref.Ref, asked *VerifyTask) error {
	step := l.Wait("building the emulator")
	defer step.End()
	dir, err := os.MkdirTemp("", "normbench-emulator-")
	if err != nil {
		help := "point $TMPDIR at a folder that you may write to"
		if errors.Is(err, syscall.ENOSPC) {
			help = noSpace
		}
		return hint.Errorf(help, "the emulator has no folder: %w", err)
	}
	defer os.RemoveAll(dir)
	info := emulatedGPU()
	tasks, none := l.emulatedTasks(refs, asked.Problems, info, v.seen)
	for _, name := range none {
		v.noteUnrun(name, fmt.Sprintf("it has no config for a shape of at most %d elements",
			emulatedElements))
	}
	emulator, err := emulate.New(l.Ctx, dir)
	switch {
	case l.Ctx.Err() != nil:
		return l.Ctx.Err()
	case errors.Is(err, emulate.ErrSpace):
		return hint.Errorf(noSpace, "%w", err)
	case err != nil:
		v.help = "install g++ or name a C++ compiler in $CXX, or use --device cuda; " +
			"--host-only leaves CUDA code out"
		for _, t := range tasks {
			for _, x := range t.Variants {
				v.noteUnrun(x.Family, console.OneLine(err.Error()))
			}
		}
		return nil
	}
	defer emulator.Close()
	dev := emulate.NewDevice(l.Ctx, emulator.UsePython(l.loader.Python), l.Registry, info, asked.Config.limit(emulate.Limit))
	defer dev.Close()
	for _, t := range tasks {
		dev.Prefetch(t.Problem, t.Variants)
	}
	err = l.check(v, dev, verify.Emulated, refs, tasks, asked, emulatedRuns)
	if errors.Is(err, emulate.ErrSpace) {
		err = hint.Errorf(noSpace, "%w", err)
	}
	return err
}
