package verify

import (
	"cmp"
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
)

// noSpace helps where the emulator's programs have no room.
const noSpace = "free some space there, or point $TMPDIR at another folder"

const (
	// emulatedShapes is how many shapes each REF or family is emulated on, for each op and pass.
	emulatedShapes = 3
	// emulatedElements is the most that one of them may have: a second's work. Launches change their config at some
	// hundreds of rows, so shapes that are typed may have batchElements where rows are compared.
	emulatedElements = 32 << 10
	batchElements    = 256 << 10
)

// mostElements returns the most that a shape may have that the emulator checks.
func (c *run) mostElements(m, n int64) int64 {
	if c.BatchInvariant && c.isTyped(m, n) {
		return batchElements
	}
	return emulatedElements
}

// smallShapes are emulated where too few of the shapes asked for are small enough: rows that no
// vector divides, rows longer than a CTA holds at once, and whole tiles of an fp8 transpose. From six rows
// on the special ones stand among unit rows, so there are fewer draws (kernels.CheckDraws).
var smallShapes = [][2]int64{{21, 72}, {9, 541}, {6, 3074}, {48, 512}, {16, 1024}, {64, 128}}

// userShapes are emulated of each kernel of a user, whatever was asked for: many rows, rows as wide as it serves, and
// fewer rows than multiprocessors. In the first two a loop over tiles of up to 128 rows or 2048 columns runs several
// times, and its last tile is not full. In the third a CTA of a grid as large as the GPU has no row.
var userShapes = [][2]int64{{397, 72}, {6, 5003}, {2, 72}, {6, 3073}, {9, 541}}

// userChecks is how many of userShapes are emulated at least.
const userChecks = 3

// emulatedGPU is an H200 of three SMs, so that a CTA has several rows or tiles of a small problem.
func emulatedGPU() kernels.DeviceInfo {
	d := launchmap.KnownDevices()[0].DeviceInfo
	d.SMs, d.Clusters = 3, [4]int{2, 1, 1, 1}
	return d
}

// emulatedRuns is how often an emulated variant runs: its CTAs in order, then from last to first. More
// runs would be the same again.
const emulatedRuns = 2

// emulatedTasks lays out what the emulator runs of refs, for each op and pass of ps: every small problem
// whose shape was typed, then up to three in all at small shapes of groups and at smallShapes. Of these each
// has another set of types and options, where there are several. Families have further checks (spread).
// none are the REFs without any.
func (c *run) emulatedTasks(refs []sweep.Operand, ps []kernels.Problem, info kernels.DeviceInfo) (
	tasks []sweep.Task, none []string) {
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
		var typed []kernels.Problem // asked for one by one
		var shapes [][2]int64
		var classes []kernels.Problem // without their shapes
		for _, p := range ps[i:] {
			if !alike(p) {
				continue
			}
			small := p.M*p.N <= c.mostElements(p.M, p.N)
			switch s := [2]int64{p.M, p.N}; {
			case small && c.isTyped(p.M, p.N):
				typed = append(typed, p)
			case small && !slices.Contains(shapes, s):
				shapes = append(shapes, s)
			}
			if p.M, p.N = 0, 0; !slices.Contains(classes, p) {
				classes = append(classes, p)
			}
		}
		for _, s := range smallShapes {
			if !slices.Contains(shapes, s) && !c.isTyped(s[0], s[1]) {
				shapes = append(shapes, s)
			}
		}
		for _, r := range refs {
			picked := 0
			pick := func(p kernels.Problem) bool {
				vs, err := c.emulatedVariants(r, p, info)
				if len(vs) == 0 {
					c.seen.refuse(r, c.asked(p), err)
					return false
				}
				add(p, vs)
				found[r.Text] = true
				c.seen.add(r, c.asked(p))
				picked++
				return true
			}
			for _, p := range typed {
				pick(p)
			}
			shapes, most := shapes, emulatedShapes
			if f, err := c.Registry.Lookup(r.Family); err == nil && slices.Contains(c.Users, f) {
				shapes = withUserShapes(shapes, len(typed))
				most = max(len(typed), 1) + userChecks
			}
			for _, s := range shapes {
				for i := 0; i < len(classes) && picked < most; i++ {
					p := classes[(picked+i)%len(classes)]
					if p.M, p.N = s[0], s[1]; pick(p) {
						break
					}
				}
			}
		}
		if !c.spreads() {
			continue
		}
		for _, r := range refs {
			f, err := c.Registry.Lookup(r.Text)
			if err != nil || f.Op != first.Op || f.Pass != first.Pass || slices.Contains(c.Users, f) {
				continue
			}
			launches := spreadLaunches
			if len(c.operands) == 0 {
				launches = unnamedLaunches
			}
			for _, x := range c.spread(f, classes, tasks, info, launches) {
				add(x.problem, []kernels.Variant{x.variant})
				found[r.Text] = true
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

// withUserShapes puts userShapes ahead of shapes, behind the first of them where none was typed.
func withUserShapes(shapes [][2]int64, typed int) [][2]int64 {
	ahead := 0
	if typed == 0 {
		ahead = 1
	}
	isOwn := func(s [2]int64) bool { return slices.Contains(userShapes, s) }
	rest := slices.DeleteFunc(slices.Clone(shapes), isOwn)
	ahead = min(ahead, len(rest))
	return slices.Concat(rest[:ahead], userShapes, rest[ahead:])
}

// emulatedVariants returns what the emulator runs of a REF on a problem: with --all-configs each config of a
// family that was named.
func (c *run) emulatedVariants(r sweep.Operand, p kernels.Problem, info kernels.DeviceInfo) (
	[]kernels.Variant, error) {
	f, err := c.Registry.Lookup(r.Family)
	if !c.All || err != nil || r.Text != r.Family || len(c.operands) == 0 || f.CheckServes(p) != nil {
		return r.Variants(p, info)
	}
	var vs []kernels.Variant
	configs, _ := f.Configs(p, info)
	for _, x := range configs {
		vs = append(vs, kernels.Variant{Family: f.Name, Config: x})
	}
	if len(vs) == 0 {
		return r.Variants(p, info)
	}
	return vs, nil
}

// emulatedOperands returns those whose CUDA code is emulated beside what the host ran: those asked for.
// Without any they are the families of tasks. Families stand also for operands that are tuned for a device,
// which have no answer at the small shapes.
func (c *run) emulatedOperands(tasks []sweep.Task) (operands []sweep.Operand) {
	recorded := func(r sweep.Operand) bool { return r.Recorded }
	var names []string
	if len(c.operands) == 0 || slices.ContainsFunc(c.operands, recorded) {
		for _, t := range tasks {
			for _, v := range t.Variants {
				names = append(names, v.Family)
			}
		}
	}
	operands = slices.DeleteFunc(slices.Clone(c.operands),
		func(r sweep.Operand) bool { return r.Recorded || r.Peer })
	for _, name := range names {
		named := func(r sweep.Operand) bool { return r.Text == name }
		if slices.ContainsFunc(operands, named) {
			continue
		}
		operands = append(operands, sweep.FamilyOperand(c.Registry, name))
	}
	return operands
}

// emulate checks the CUDA code of refs on small problems. Without a C++ compiler it checks
// nothing, and the verification has them as not run.
func (c *run) emulate(refs []sweep.Operand) error {
	v := c.found
	step := c.Wait("building the emulator")
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
	tasks, none := c.emulatedTasks(refs, c.Problems, info)
	for _, name := range none {
		v.noteUnrun(name, fmt.Sprintf("it has no config for a shape of at most %d elements",
			emulatedElements))
	}
	emulator, err := emulate.New(c.ctx, dir)
	switch {
	case c.ctx.Err() != nil:
		return c.ctx.Err()
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
	dev := emulate.NewDevice(c.ctx, emulator.UsePython(c.Python), c.Registry, info, cmp.Or(c.Limit, emulate.Limit))
	defer dev.Close()
	for _, t := range tasks {
		dev.Prefetch(t.Problem, t.Variants)
	}
	err = c.check(dev, Emulated, refs, tasks, emulatedRuns)
	if errors.Is(err, emulate.ErrSpace) {
		err = hint.Errorf(noSpace, "%w", err)
	}
	return err
}
