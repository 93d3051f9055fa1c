package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/gonum/floats"

	"normbench/internal/durable"
	"normbench/kernels"
)

// Limits of an answer. Nothing larger is read, whoever is at the other end.
const (
	maxAnswer = 16 << 20 // bytes
	maxReason = 4 << 10
	maxName   = 256
	maxList   = 64 // peers, stages, reasons to throttle
)

// decode reads the answer to a request. It is the one place where what a worker says is
// held to the protocol: what it returns may be used as it is. builds is
// Options.Builds.
func decode(line []byte, req *request, builds bool) (*answer, error) {
	var a answer
	if err := json.Unmarshal(line, &a); err != nil || a.ID != req.ID {
		return nil, fmt.Errorf("nonsense: %.80q", line)
	}
	if err := durable.RefuseDuplicates(line); err != nil {
		return nil, err
	}
	a.Error, a.Hint = kernels.MakePrintable(a.Error, maxReason), kernels.MakePrintable(a.Hint, maxReason)
	if f := a.Failure; f != nil {
		f.Reason = kernels.MakePrintable(f.Reason, maxReason)
		if !slices.Contains(failures, f.Status) {
			return nil, fmt.Errorf("a failure of status %.40q", f.Status)
		}
		if f.Reason == "" {
			f.Reason = "no reason given"
		}
		return &a, nil
	}
	if a.Error != "" {
		return &a, nil
	}
	var err error
	switch req.Op {
	case "hello":
		err = a.Hello.check()
	case "check":
		err = checkCheck(a.Check, req, builds)
	case "hash":
		err = checkHashes(a.Hashes, req)
	case "time":
		err = checkTiming(a.Timing, req.Options)
	case "sense":
		err = checkReading(a.Reading)
	}
	if err != nil {
		return nil, err
	}
	return &a, nil
}

// failures are the statuses that a worker may answer with.
var failures = []kernels.Status{kernels.StatusRefused, kernels.StatusCompile,
	kernels.StatusResource, kernels.StatusLaunch,
	kernels.StatusWrong, kernels.StatusTimeout, kernels.StatusCrash, kernels.StatusUnfit}

func (h *hello) check() error {
	if h == nil {
		return errors.New("no hello")
	}
	h.Kernels, h.Version = kernels.MakePrintable(h.Kernels, maxName), kernels.MakePrintable(h.Version, maxName)
	if h.Protocol != Protocol {
		return nil // Start says so, whatever else there is
	}
	d := &h.Info
	if err := d.Validate(); err != nil {
		return err
	}
	if d.SMs < 1 {
		return fmt.Errorf("a device of %d SMs", d.SMs)
	}
	if len(h.Peers) > maxList {
		return fmt.Errorf("%d peers", len(h.Peers))
	}
	for i := range h.Peers {
		p := &h.Peers[i]
		for _, s := range []*string{&p.Name, &p.System, &p.Version, &p.Missing, &p.Builds} {
			*s = kernels.MakePrintable(*s, maxName)
		}
	}
	return nil
}

// checkCheck wants the outputs of the problem, each once and whole: without them a variant
// would pass for right. The stream moves tensors and has not all of them, nor has a peer.
func checkCheck(c *kernels.Check, req *request, builds bool) error {
	if c == nil {
		return errors.New("no check")
	}
	if c.Repeats < 1 || c.Repeats > max(req.Repeats, 1) || c.Differing < 0 || !finite(c.Busy) ||
		len(c.Resources) > maxList {
		return fmt.Errorf("a check of %d repeats, %d of them differing, %d launches and %g s",
			c.Repeats, c.Differing, len(c.Resources), c.Busy)
	}
	c.Beyond = kernels.MakePrintable(c.Beyond, maxReason)
	if len(c.Changed) > maxList {
		return fmt.Errorf("a check of %d changed inputs", len(c.Changed))
	}
	for i := range c.Changed {
		c.Changed[i] = kernels.MakePrintable(c.Changed[i], maxName)
	}
	for i := range c.Resources {
		c.Resources[i].Stage = kernels.MakePrintable(c.Resources[i].Stage, maxName)
	}
	missing, err := checkOutputs(c, req.on)
	if err != nil || builds {
		return err
	}
	family := req.Variants[0].Family
	_, peer := kernels.PeerName(family)
	// those move one tensor
	part := peer || strings.HasSuffix(family, "/stream") || strings.HasSuffix(family, "/copy")
	switch {
	case len(c.Outputs) == 0:
		return errors.New("a check of no output")
	case !part && missing > 0:
		return fmt.Errorf("a check of %d outputs, and the problem has %d", len(c.Outputs),
			len(c.Outputs)+missing)
	}
	return nil
}

// checkOutputs counts the outputs of a problem that are missing in a check. Those that are there are
// the problem's own. A forward may say that it leaves out statistics, and nothing else.
func checkOutputs(c *kernels.Check, p kernels.Problem) (missing int, err error) {
	left := map[string]int64{}
	for _, t := range p.Tensors() {
		if t.Role == kernels.Output {
			left[t.Name] = t.Elems()
		}
	}
	for _, o := range c.Outputs {
		elems, ok := left[o.Name]
		if !ok {
			return 0, fmt.Errorf("an output %.40q, which the problem has not or which comes twice", o.Name)
		}
		delete(left, o.Name)
		if o.Elems != elems || o.Bad < 0 || o.Bad > elems || o.First < 0 || o.First >= elems ||
			o.Unwritten < 0 || o.Unwritten > elems ||
			!finite(o.MaxErr) || !finite(o.RelL2) {
			return 0, fmt.Errorf("output %s with %d of %d elements bad, first at %d, by %g: it has %d",
				o.Name, o.Bad, o.Elems, o.First, o.MaxErr, elems)
		}
	}
	for _, name := range p.Op.Spec().Saved {
		if p.Pass == kernels.Fwd && slices.Contains(c.Unwritten, name) {
			delete(left, name)
		}
	}
	return len(left), nil
}

// checkHashes wants hashes of some outputs of the problem, for each of the rows that were asked for: without
// them rows would pass for equal.
func checkHashes(hashes kernels.RowHashes, req *request) error {
	known := 0
	for _, t := range req.on.RowOutputs() {
		if list, ok := hashes[t.Name]; ok {
			if known++; int64(len(list)) != min(req.Rows, t.Rows) {
				return fmt.Errorf("hashes of %d rows of %s, asked for %d", len(list), t.Name, min(req.Rows, t.Rows))
			}
		}
	}
	if known == 0 || known < len(hashes) {
		return fmt.Errorf("hashes of %d outputs, and the problem has %d of them", len(hashes), known)
	}
	return nil
}

func checkTiming(t *kernels.Timing, o *kernels.TimeOptions) error {
	if t == nil {
		return errors.New("no timing")
	}
	if err := checkTimes("samples", t.Seconds, o.Samples); err != nil {
		return err
	}
	if len(t.Stages) > maxList || !o.Stages && len(t.Stages) > 0 {
		return fmt.Errorf("%d stages", len(t.Stages))
	}
	for i := range t.Stages {
		s := &t.Stages[i]
		if s.Stage = kernels.MakePrintable(s.Stage, maxName); s.Stage == "" {
			return errors.New("a stage without a name")
		}
		if err := checkTimes("samples of a stage", s.Seconds, o.Samples); err != nil {
			return err
		}
	}
	if t.By != "" && t.By != kernels.ByExposed && t.By != kernels.ByEvents && t.By != kernels.ByCUPTI {
		return fmt.Errorf("stages by %.40q", t.By)
	}
	if len(t.Gaps) != 0 && len(t.Gaps) != o.Samples || !finite(t.Busy) || !finite(t.Host) {
		return fmt.Errorf("%d gaps of %d samples, %g s in all", len(t.Gaps), o.Samples, t.Busy)
	}
	return nil
}

// checkTimes wants as many times as were asked for, each between a nanosecond, which records
// are rounded to, and a day.
func checkTimes(what string, seconds []float64, want int) error {
	if len(seconds) != want {
		return fmt.Errorf("%d %s, asked for %d", len(seconds), what, want)
	}
	for _, s := range seconds {
		if !(s >= 1e-9 && s <= 86400) {
			return fmt.Errorf("%s of %g s", what, s)
		}
	}
	return nil
}

// sumSlack is by how much the times of an answer may add up to more than it took: clocks differ.
const sumSlack = 50 * time.Millisecond

// checkSum refuses times that together are longer than the answer was waited for, on whatever device:
// runs come one after the other. A stage may be a part of the runs, and overlap another.
func checkSum(t *kernels.Timing, took time.Duration) error {
	sum := floats.Sum(t.Seconds)
	for _, stage := range t.Stages {
		sum = max(sum, floats.Sum(stage.Seconds))
	}
	if sum > 1.05*(took+sumSlack).Seconds() {
		return kernels.Failf(kernels.StatusUnfit, "its times add up to %.3g s, and the answer took %.3g: "+
			"miscounted", sum, took.Seconds())
	}
	return nil
}

func checkReading(r *kernels.Reading) error {
	if r == nil {
		return errors.New("no reading")
	}
	if len(r.Throttle) > maxList {
		return fmt.Errorf("%d reasons to throttle", len(r.Throttle))
	}
	r.Others = r.Others[:min(len(r.Others), maxList)]
	for _, list := range [][]string{r.Throttle, r.Others} {
		for i := range list {
			list[i] = kernels.MakePrintable(list[i], maxName)
		}
	}
	return nil
}

// finite says whether a number is one of 0 and above.
func finite(f float64) bool { return f >= 0 && !math.IsInf(f, 0) }
