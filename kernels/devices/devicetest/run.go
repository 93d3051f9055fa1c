package devicetest

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families/reference"
)

// problems are where indexing and rounding go wrong: one row, one column, odd
// columns, rows that are no multiple of a vector, every dtype, mixed ones, bias
// and zero-centered weights, rows too wide for registers, rows that CTAs share; fp8 with
// its transpose and residuals; and a middle size.
var problems = []string{
	"rmsnorm/fwd/1x1/bf16",
	"rmsnorm/bwd/1x4096/bf16",
	"layernorm/bwd/3x1/bf16+bias",
	"rmsnorm/fwd/5x7/fp16+zc",
	"layernorm/fwd/33x541/bf16-wfp32+bias",
	"layernorm/bwd/33x541/fp16+bias+zc",
	"rmsnorm/bwd/130x100/fp32",
	"rmsnorm/bwd/19x1028/bf16-wfp32",
	"layernorm/fwd/9x4100/fp32-wbf16+zc",
	"rmsnorm/bwd/2x20000/bf16",
	"layernorm/fwd/2x40001/fp16+bias",
	"rmsnorm/fwd/90x1024/bf16",
	"layernorm/bwd/90x1024/bf16+bias",
	"layernorm/fwd/70x12288/bf16+bias",
	"rmsnorm/fwd/128x2048/bf16+fp8t",
	"layernorm/fwd/64x8192/bf16+bias+fp8t",
	"rmsnorm/fwd/33x2056/fp16+residual",
	"layernorm/bwd/17x4096/bf16+bias+residual",
	"layernorm/bwd/33x541/bf16+bias+residual+nodw",
	"l2norm/fwd/33x541/bf16+residual",
	"l2norm/bwd/19x1028/fp32",
	"rmsnormgated/fwd/33x541/bf16+gatefirst",
	"rmsnormgated/bwd/19x1028/bf16-wfp32",
	"layernormgated/fwd/33x541/fp16+bias+sigmoid",
	"layernormgated/bwd/33x541/bf16+bias",
	"layernormgated/bwd/90x1024/fp32+bias+acc+sigmoid+gatefirst",
}

// Run is the conformance suite: what every kernels.Device does, whatever is
// behind it. open opens the device, once, with the families of r, which must
// come from Registry.
func Run(t *testing.T, open func(t *testing.T) kernels.Device, r *kernels.Registry) {
	dev := open(t)
	t.Cleanup(func() {
		assert.NoError(t, dev.Close(), "close")
	})
	s := &suite{dev, r}
	for _, test := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"Info", s.info},
		{"Answers", s.answers},
		{"Stream", s.stream},
		{"Time", s.time},
		{"Flush", s.flush},
		{"Failures", s.failures},
		{"Remembering", s.testLateFault},
		{"Mistakes", s.testFaults},
		{"Draws", s.draws},
		{"Reference", s.reference},
		{"Rows", s.rows},
	} {
		t.Run(test.name, test.run)
	}
}

type suite struct {
	dev kernels.Device
	r   *kernels.Registry
}

// each runs a test of each problem.
func each(t *testing.T, run func(t *testing.T, p kernels.Problem), texts ...string) {
	for _, text := range texts {
		t.Run(strings.ReplaceAll(text, "/", ","), func(t *testing.T) { run(t, Problem(t, text)) })
	}
}

// bench opens a problem for the length of the test.
func (s *suite) bench(t *testing.T, p kernels.Problem, seed uint64) kernels.Bench {
	t.Helper()
	b, err := s.dev.Open(t.Context(), p, kernels.Inputs{Seed: seed})
	assert.NoError(t, err, "open", p)
	t.Cleanup(func() {
		assert.NoError(t, b.Close(), "close", p)
	})
	return b
}

// openDraw opens a problem on a draw for the length of the test.
func (s *suite) openDraw(t *testing.T, p kernels.Problem, draw kernels.Draw) kernels.Bench {
	t.Helper()
	b, err := s.dev.Open(t.Context(), p, kernels.Inputs{Seed: 9, Draw: draw})
	assert.NoError(t, err, "open", p, draw.About())
	return b
}

// checkRight checks v and wants a right answer of the same bits every time.
func (s *suite) checkRight(t *testing.T, b kernels.Bench, p kernels.Problem,
	v kernels.Variant) kernels.Check {
	t.Helper()
	const repeats = 3
	c, err := b.Check(t.Context(), v, repeats)
	assert.NoError(t, err, v, "on", p)
	assert.That(t, c.OK() && !c.Breaks() && c.Repeats == repeats,
		"%s on %s: %s; %d elements differ in %d runs", v, p, c.Reason(), c.Differing, c.Repeats)
	var names []string
	for _, o := range c.Outputs {
		names = append(names, o.Name)
		norm := 0.01
		if p.FP8 && (o.Name == "y" || o.Name == "yt") {
			norm = 0.04 // of three bits
		}
		assert.That(t, o.MaxErr >= 0 && o.MaxErr <= 1 && o.RelL2 >= 0 && o.RelL2 <= norm,
			"%s on %s: %s passes with an error of %g tolerances and a relative norm of %g", v, p,
			o.Name, o.MaxErr, o.RelL2)
	}
	assert.Same(t, names,
		outputs(p, strings.HasSuffix(v.Family, "/stream") || strings.HasSuffix(v.Family, "/copy")),
		v, "on", p, "outputs", "were checked")
	return c
}

// outputs names what a check compares: every output, or what a stream writes.
func outputs(p kernels.Problem, stream bool) []string {
	var names []string
	for _, t := range p.Tensors() {
		if t.Role == kernels.Output && (!stream || t.Name == "y" || t.Name == "dx") {
			names = append(names, t.Name)
		}
	}
	return names
}

func (s *suite) info(t *testing.T) {
	d := s.dev.Info()
	assert.NoError(t, d.Validate())
	assert.That(t, d.Kind == kernels.KindCPU || d.Kind == kernels.KindCUDA,
		"unknown kind %q", d.Kind)
	assert.That(t, d.Name != "" && d.Arch != "" && d.Compiler != "" && d.SMs >= 1 &&
		d.CacheBytes >= 1<<10 && d.MemoryBytes >= 0, "incomplete: %+v", d)
	assert.That(t,
		d.Kind != kernels.KindCUDA || d.Driver != "" && d.UUID != "" && d.MemoryBytes != 0 &&
			d.SharedPerBlock != 0 && d.RegsPerSM != 0,
		"incomplete for a GPU: %+v", d)
	assert.Equal(t, s.dev.Info(), d, "the second answer is another", "then")
}

// base is the variant that p is given by default.
func (s *suite) base(t *testing.T, p kernels.Problem) kernels.Variant {
	t.Helper()
	v, err := s.r.Base(p, s.dev.Info())
	assert.NoError(t, err, "no base")
	return v
}

// refuses says whether the family of v refuses it for p.
func refuses(r *kernels.Registry, p kernels.Problem, v kernels.Variant, d kernels.DeviceInfo) bool {
	f, err := r.Lookup(v.Family)
	return err != nil || f.CheckServes(p) != nil || f.Refuse(p, v.Config, d) != nil
}

// pickConfigs picks a family's base, its last config and a few between them.
func (s *suite) pickConfigs(f *kernels.Family, p kernels.Problem) (picked []kernels.Variant) {
	configs, _ := f.Configs(p, s.dev.Info())
	few := min(len(configs), 5)
	for i := range few {
		c := configs[i*(len(configs)-1)/max(few-1, 1)]
		picked = append(picked, kernels.Variant{Family: f.Name, Config: c})
	}
	return picked
}

// element is a family of this package that does something to an element of y.
func element(family string, at int64) kernels.Variant {
	return kernels.Variant{Family: family,
		Config: kernels.NewConfig(kernels.Setting{Knob: kernels.CTAs, Value: int(at)})}
}

func (s *suite) answers(t *testing.T) {
	each(t, func(t *testing.T, p kernels.Problem) {
		var vs []kernels.Variant
		for _, f := range s.r.FamiliesFor(p) {
			vs = append(vs, s.pickConfigs(f, p)...)
		}
		if base := s.base(t, p); !slices.Contains(vs, base) { // a map's config need not be one of a space's few
			vs = append(vs, base)
		}
		s.dev.Prefetch(p, vs)
		b := s.bench(t, p, 7)
		for _, v := range vs {
			c := s.checkRight(t, b, p, v)
			s.resources(t, p, v, c)
		}
	}, problems...)
}

// resources holds what a compiler says of a variant against its plan; devices
// without a compiler of kernels say nothing.
func (s *suite) resources(t *testing.T, p kernels.Problem, v kernels.Variant, c kernels.Check) {
	if s.dev.Info().Kind != kernels.KindCUDA {
		return
	}
	_, _, plan, err := s.r.Resolve(p, v, s.dev.Info())
	assert.NoError(t, err, v, "on", p)
	// The driver's own copies and memsets have none.
	launches := slices.DeleteFunc(slices.Clone(plan.Launches),
		func(l kernels.Launch) bool { return !l.IsKernel() })
	assert.Must(t, len(c.Resources) == len(launches), "%s on %s: resources of %d kernels, the plan has %d",
		v, p, len(c.Resources), len(launches))
	for i, l := range launches {
		got := c.Resources[i]
		assert.That(t, got.Stage == l.Stage && got.Threads == l.Block &&
			got.CTAs == l.Grid[0]*l.Grid[1]*l.Grid[2] && got.Registers >= 1 && got.Occupancy >= 1 &&
			got.Shared >= l.Shared, "%s on %s: %+v for %+v", v, p, got, l)
	}
}

// stream runs the bound: it must be right too, or every ratio is off.
func (s *suite) stream(t *testing.T) {
	each(t, func(t *testing.T, p kernels.Problem) {
		b := s.bench(t, p, 7)
		n := 0
		for _, f := range s.r.Families {
			if !f.Stream || f.CheckServes(p) != nil {
				continue
			}
			for _, v := range s.pickConfigs(f, p) {
				s.checkRight(t, b, p, v)
				n++
			}
		}
		assert.That(t, n != 0, "no stream family")
	}, "rmsnorm/fwd/33x541/bf16", "rmsnorm/bwd/33x541/fp16", "layernorm/fwd/1x3/fp32",
		"layernorm/bwd/90x1024/bf16+bias")
}

func (s *suite) time(t *testing.T) {
	each(t, func(t *testing.T, p kernels.Problem) {
		base := s.base(t, p)
		_, _, plan, err := s.r.Resolve(p, base, s.dev.Info())
		assert.NoError(t, err)
		b := s.bench(t, p, 7)
		for _, samples := range []int{1, 6} {
			got := s.timing(t, b, base, kernels.TimeOptions{Samples: samples, Flush: 1 << 20})
			assert.Equal(t, len(got.Stages), 0, "stages", got.Stages, "asked for")
		}
		got := s.timing(t, b, base, kernels.TimeOptions{Samples: 6, Flush: 1 << 20, Stages: true})
		assert.Must(t, len(got.Stages) == len(plan.Launches),
			"%d stages of %d launches", len(got.Stages), len(plan.Launches))
		sums := make([]float64, 6)
		for i, st := range got.Stages {
			assert.Must(t, st.Stage == plan.Launches[i].Stage && len(st.Seconds) == 6,
				"stage %d is %q with %d samples, want %q with 6", i, st.Stage, len(st.Seconds),
				plan.Launches[i].Stage)
			for k, v := range st.Seconds {
				assert.That(t, v > 0, "stage %s took %g s", st.Stage, v)
				sums[k] += v
			}
		}
		for k, v := range got.Seconds {
			// Event steps (32 ns on NVIDIA GPUs) blur every end of a stage.
			assert.That(t, sums[k] <= v*1.05+1e-6,
				"sample %d: the stages take %g s, all of it %g s", k, sums[k], v)
		}
		assert.That(t,
			p.Pass != kernels.Bwd || len(got.Stages) == 2 && got.Stages[0].Stage == "k1" &&
				got.Stages[1].Stage == "k2",
			"the base of a backward has stages %v, want k1 and k2", got.Stages)
	}, "rmsnorm/fwd/300x1024/bf16", "layernorm/bwd/1000x1024/bf16+bias")
}

// timing takes samples that are as many as asked for and positive.
func (s *suite) timing(t *testing.T, b kernels.Bench, v kernels.Variant,
	o kernels.TimeOptions) kernels.Timing {
	t.Helper()
	start := time.Now()
	got, err := b.Time(t.Context(), v, o)
	wall := time.Since(start).Seconds()
	assert.NoError(t, err, "time", v)
	assert.Must(t, len(got.Seconds) == o.Samples,
		"%d samples, asked for %d", len(got.Seconds), o.Samples)
	var sum float64
	for _, v := range got.Seconds {
		assert.That(t, v > 0 && !math.IsInf(v, 0), "a sample of %g s", v)
		sum += v
	}
	// Samples follow each other: seconds taken for milliseconds would show here.
	assert.That(t, sum <= wall*1.05 && got.Busy >= sum*0.95 && got.Busy <= wall*1.05,
		"%d samples of %g s in all, busy for %g s, in a call of %g s", o.Samples, sum, got.Busy,
		wall)
	return got
}

// flush: the last-level cache is flushed before every sample, and no sample
// holds the flush. Both show in what a call takes beyond its samples, which no
// machine does faster than it can touch the bytes; a neighbour that takes the
// processor makes it longer only. (Comparing a kernel's time from memory with
// its time from the cache was tried, and failed on a busy machine of two cores:
// 0.26 ms from memory, 0.48 ms from the cache, in each of three tries.)
func (s *suite) flush(t *testing.T) {
	p := Problem(t, "rmsnorm/fwd/300x1024/bf16")
	base, b := s.base(t, p), s.bench(t, p, 7)
	const samples, fastest = 9, 10e12 // bytes/s: beyond any memory's
	bytes := min(4*s.dev.Info().CacheBytes, 512<<20)
	if s.dev.Info().Kind == kernels.KindCUDA {
		// Without a flush a GPU has to wait as long for the host: 0.13 ms a sample on an H200,
		// which hid the flush of four caches. Sixty-four are 0.9 ms there.
		bytes = min(64*s.dev.Info().CacheBytes, s.dev.Info().MemoryBytes/8)
	}
	beyond := func(flush int64) float64 {
		start := time.Now()
		got := s.timing(t, b, base, kernels.TimeOptions{Samples: samples, Flush: flush})
		rest := time.Since(start).Seconds()
		for _, v := range got.Seconds {
			rest -= v
		}
		return rest
	}
	beyond(bytes) // a first flush may allocate
	without := math.Inf(1)
	for range 5 {
		without = min(without, beyond(0))
	}
	with := beyond(bytes)
	assert.That(t, with >= without+samples*float64(bytes)/fastest,
		"%d samples with a flush of %d bytes ahead of each: %g s beyond them, %g s without a flush",
		samples, bytes, with, without)
}

// failures: what cannot run is a Failure, or an error with a hint, and harms
// nothing that comes after.
func (s *suite) failures(t *testing.T) {
	p := Problem(t, "rmsnorm/bwd/33x541/bf16")
	base, b := s.base(t, p), s.bench(t, p, 7)
	for _, text := range []string{
		base.Family + "@br3", // a value that no design takes
		base.Family + "@v16", // rows are odd
		"test/wrong@",        // another pass
		"rms_bwd/nobody@",    // no such family
	} {
		v := Variant(t, text)
		_, err1 := b.Check(t.Context(), v, 1)
		_, err2 := b.Time(t.Context(), v, kernels.TimeOptions{Samples: 1})
		for _, err := range []error{err1, err2} {
			var f *kernels.Failure
			assert.That(t, errors.As(err, &f) && f.Status == kernels.StatusRefused &&
				f.Reason != "" && !f.Broken && !strings.Contains(f.Reason, "\n"),
				"%s: %#v, want a Failure that says refused, in one line", v, err)
		}
		s.checkRight(t, b, p, base)
	}
	assert.NoError(t, b.Close())

	memory := s.dev.Info().MemoryBytes
	if memory == 0 {
		t.Log("the device does not say how much memory it has")
	} else {
		huge := Problem(t, "rmsnorm/fwd/1x65536/bf16")
		huge.M = memory/(huge.N*4) + 1 // x and y alone are more
		_, err := s.dev.Open(t.Context(), huge, kernels.Inputs{Seed: 7})
		var f *kernels.Failure
		assert.That(t, err != nil && !errors.As(err, &f) && hint.Of(err) != "",
			"open %s in %s of memory: %v with hint %q", huge, kernels.FormatBytes(memory), err,
			hint.Of(err))
	}
	again := s.bench(t, p, 7)
	s.checkRight(t, again, p, base)
}

// testFaults wants a kernel's faults found: a wrong element, an unwritten one, and bits
// that change.
func (s *suite) testFaults(t *testing.T) {
	each(t, func(t *testing.T, p kernels.Problem) {
		b := s.bench(t, p, 7)
		for _, at := range []int64{0, p.M * p.N / 2, p.M*p.N - 1} {
			for _, family := range []string{Wrong, Unwritten} {
				v := element(family, at)
				c, err := b.Check(t.Context(), v, 2)
				assert.NoError(t, err, v)
				y := c.Outputs[0]
				assert.That(t, !c.OK() && y.Name == "y" && y.Bad == 1 && y.First == at &&
					y.MaxErr > 1 && c.Differing == 0,
					"%s: %+v, %d differ; want element %d of y to be bad", v, c.Outputs, c.Differing, at)
				// An element that the kernel does not write must be a NaN, not the last right
				// answer.
				got := float64(y.Got)
				assert.That(t, (family != Unwritten || got != got) &&
					(family != Wrong || got == 1000), "%s: got %g", v, got)
			}
		}
		// An input that a run has changed is named, whatever the outputs are, and is put back.
		last := element(Spoiling, p.M*p.N-1)
		for range 2 {
			c, err := b.Check(t.Context(), last, 2)
			assert.That(t, err == nil && !c.OK() && slices.Equal(c.Changed, []string{"x"}) &&
				strings.HasPrefix(c.Reason(), "it has changed its input x"), "%s: %v, %q", last, err, c.Reason())
		}
		s.checkRight(t, b, p, s.base(t, p))
		if s.dev.Info().Kind == kernels.KindCUDA {
			c, err := b.Check(t.Context(), kernels.Variant{Family: Overrun}, 1)
			assert.That(t, err == nil && c.Reason() == "it has written 0 bytes behind the end of y",
				"a write behind y: %v, %q", err, c.Reason())
		}
		for repeats := range 2 { // run once, nothing differs
			c, err := b.Check(t.Context(), kernels.Variant{Family: Racy}, repeats+1)
			assert.That(t, err == nil && c.OK() && c.Differing == int64(repeats),
				"racy: %v, %q, %d elements differ, want %d", err, c.Reason(), c.Differing, repeats)
		}
	}, "rmsnorm/fwd/1x1/bf16", "rmsnorm/fwd/33x541/fp16+bias", "rmsnorm/fwd/19x130/fp32+zc")
}

// draws: every base is right on every draw, and what is wrong shows on each of them, also where the
// answers have NaN.
func (s *suite) draws(t *testing.T) {
	each(t, func(t *testing.T, p kernels.Problem) {
		base := s.base(t, p)
		for _, draw := range kernels.CheckDraws(p, true) {
			b := s.openDraw(t, p, draw)
			c, err := b.Check(t.Context(), base, 2)
			assert.That(t, err == nil && c.OK() && !c.Breaks(), "%s on %s of %s: %v, %s", base, draw.About(), p, err,
				c.Reason())
			if p.Op == kernels.RMSNorm && p.Pass == kernels.Fwd && !p.Residual {
				for at := range min(p.M, 8) {
					c, err := b.Check(t.Context(), element(Unwritten, at*p.N), 1)
					assert.That(t, err == nil && len(c.Outputs) > 0 && c.Outputs[0].Bad == 1 && c.Outputs[0].Unwritten == 1,
						"an unwritten y in row %d on %s of %s: %v, %+v", at, draw.About(), p, err, c.Outputs)
				}
			}
			assert.NoError(t, b.Close())
		}
	}, "rmsnorm/fwd/33x541/bf16", "rmsnorm/fwd/2x130/fp16+zc", "rmsnorm/fwd/19x1028/fp32+residual",
		"rmsnorm/bwd/33x541/fp16", "layernorm/fwd/21x1024/fp32+bias", "layernorm/bwd/1x541/bf16+bias",
		"layernorm/bwd/40x2048/fp16-wfp32+bias", "l2norm/fwd/9x541/fp16", "l2norm/bwd/3x541/fp16",
		"rmsnormgated/fwd/9x541/fp16+gatefirst", "layernormgated/bwd/40x541/fp16+bias",
		"layernorm/fwd/64x512/bf16+bias+fp8t")
}

// reference holds inputs and answers, which a device may make by itself, to
// those of package reference: a wrong element shows the answer beside it.
func (s *suite) reference(t *testing.T) {
	each(t, func(t *testing.T, p kernels.Problem) {
		const seed = 1<<63 + 12345 // more bits than a float64 or an int32 would keep
		for _, draw := range []kernels.Draw{kernels.DrawUnit, kernels.DrawMean, kernels.DrawExtreme} {
			in := kernels.Inputs{Seed: seed, Draw: draw}
			want := reference.ComputeGroundTruth(p, reference.Inputs(p, in)).Values["y"]
			b, err := s.dev.Open(t.Context(), p, in)
			assert.NoError(t, err)
			for i := range 8 {
				at := i * (len(want) - 1) / 7
				c, err := b.Check(t.Context(), element(Wrong, int64(at)), 1)
				assert.Must(t, err == nil && c.Outputs[0].First == int64(at), "%d: %v, %+v", at, err, c.Outputs)
				got := float64(c.Outputs[0].Want)
				assert.That(t, math.Abs(got-want[at]) <= 1e-11*math.Max(math.Abs(want[at]), 1),
					"%s: y[%d] should be %.17g, the device wants %.17g", in, at, want[at], got)
			}
			assert.NoError(t, b.Close())
		}
	}, "rmsnorm/fwd/33x541/bf16", "rmsnorm/fwd/33x541/fp16-wfp32+bias",
		"rmsnorm/fwd/19x130/fp32-wbf16+zc")
}

// rows: a row has the same inputs wherever a problem begins, and a hash of its own.
func (s *suite) rows(t *testing.T) {
	each(t, func(t *testing.T, p kernels.Problem) {
		hash := func(m, from int64, v kernels.Variant) kernels.RowHashes {
			part := p
			part.M = m
			b, err := s.dev.Open(t.Context(), part, kernels.Inputs{Seed: 3, Draw: kernels.DrawPlain, From: from})
			assert.NoError(t, err)
			hashes, err := kernels.HashRows(t.Context(), b, v, kernels.MostHashed)
			assert.NoError(t, err)
			assert.NoError(t, b.Close())
			return hashes
		}
		v := s.base(t, p) // one config for all numbers of rows
		all, outputs := hash(p.M, 0, v), p.RowOutputs()
		assert.That(t, len(all) == len(outputs), "%s: hashes of %d outputs, want %v", p, len(all), outputs)
		for _, window := range [][2]int64{{1, 0}, {1, 5}, {7, 2}} {
			part := p
			if part.M = window[0]; refuses(s.r, part, v, s.dev.Info()) {
				continue
			}
			for name, list := range hash(window[0], window[1], v) {
				assert.Same(t, list, all[name][window[1]:][:window[0]], p, name, "rows", window)
			}
		}
		if p.Op != kernels.RMSNorm || p.Pass != kernels.Fwd {
			return
		}
		// Two runs of one design, which differ in one element.
		right, wrong := hash(p.M, 0, element(Wrong, 1))["y"], hash(p.M, 0, element(Wrong, 4*p.N+1))["y"]
		for r := range right {
			assert.That(t, (right[r] == wrong[r]) == (r != 0 && r != 4), "row %d of y, where rows 0 and 4 differ: %x and %x", r,
				right[r], wrong[r])
		}
	}, "rmsnorm/fwd/33x130/bf16+residual", "rmsnorm/fwd/33x130/fp32", "rmsnorm/bwd/33x130/bf16+residual",
		"layernorm/bwd/33x130/fp16+bias", "rmsnormgated/bwd/33x130/bf16", "layernorm/fwd/64x512/bf16+bias+fp8t")
}

// testLateFault times a kernel that checks find right, and that stops working after a while.
func (s *suite) testLateFault(t *testing.T) {
	p := Problem(t, "rmsnorm/fwd/33x541/fp32")
	b := s.bench(t, p, 5)
	v := kernels.Variant{Family: Lazy}
	s.checkRight(t, b, p, v)
	for range 2 {
		_, err := b.Time(t.Context(), v, kernels.TimeOptions{Samples: 8})
		var f *kernels.Failure
		assert.Must(t, errors.As(err, &f) && f.Status == kernels.StatusWrong && !f.Broken &&
			strings.Contains(f.Reason, "after 8 timed runs y is never written"),
			"a kernel that remembers passes: %v", err)
	}
}

// Survive is for devices that live in a process of their own: kernels that
// crash or never end are Failures, and the next problem opens. open opens the
// device with a limit on how long a request may take.
func Survive(t *testing.T, open func(t *testing.T, limit time.Duration) kernels.Device) {
	p := Problem(t, "rmsnorm/fwd/33x541/bf16")
	good := kernels.Variant{Family: Unwritten} // an answer is all it takes
	for _, test := range []struct {
		family string
		limit  time.Duration
		status []kernels.Status
		ops    []string
	}{
		// A fault is a launch failure where the driver lives to tell.
		{Crash, time.Minute, []kernels.Status{kernels.StatusCrash, kernels.StatusLaunch},
			[]string{"check", "time"}},
		// Long enough for a GPU's process to start and compile within it.
		{Spin, 3 * time.Second, []kernels.Status{kernels.StatusTimeout}, []string{"check"}},
	} {
		t.Run(strings.TrimPrefix(test.family, "test/"), func(t *testing.T) {
			dev := open(t, test.limit)
			defer dev.Close()
			for _, op := range test.ops {
				b, err := dev.Open(t.Context(), p, kernels.Inputs{Seed: 7})
				assert.NoError(t, err, "open before", op)
				_, err = b.Check(t.Context(), good, 1)
				assert.Must(t, err == nil, "before %s: %v", op, err)
				v := kernels.Variant{Family: test.family}
				if op == "check" {
					_, err = b.Check(t.Context(), v, 1)
				} else {
					_, err = b.Time(t.Context(), v, kernels.TimeOptions{Samples: 1})
				}
				var f *kernels.Failure
				assert.Must(t, errors.As(err, &f) && slices.Contains(test.status, f.Status) &&
					f.Broken && f.Reason != "", "%s %s: %#v, want one of %v, broken", op, v, err,
					test.status)
				// The bench is gone, and says so instead of measuring something else.
				_, err = b.Check(t.Context(), good, 1)
				assert.That(t, errors.As(err, &f) && f.Broken,
					"%s after %s: %v, want a broken bench", good, v, err)
				assert.NoError(t, b.Close(), "close")
			}
			b, err := dev.Open(context.Background(), p, kernels.Inputs{Seed: 7})
			assert.NoError(t, err, "open after", test.family)
			c, err := b.Check(t.Context(), good, 1)
			assert.That(t, err == nil && len(c.Outputs) != 0, "after %s: %v", test.family, err)
			b.Close()
		})
	}
}
