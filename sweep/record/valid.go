package record

import (
	"fmt"
	"math"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
)

// maxText is the most bytes that a text in a line may have.
const maxText = 16 << 10

// makePrintable makes texts printable and one line each, in place.
func makePrintable(texts ...*string) {
	for _, s := range texts {
		*s = kernels.MakePrintable(*s, maxText)
	}
}

// makePrintable makes the texts printable that come from a device, a host or a peer, as tables show
// them.
func (r *Run) makePrintable() {
	makePrintable(&r.ID, &r.Tool)
	for k, text := range r.Env {
		delete(r.Env, k)
		r.Env[kernels.MakePrintable(k, maxText)] = kernels.MakePrintable(text, maxText)
	}
	for i := range r.Command {
		makePrintable(&r.Command[i])
	}
	if r.Shard != nil {
		makePrintable(&r.Shard.Plan)
	}
	for i := range r.SelfTest {
		makePrintable(&r.SelfTest[i].Name, &r.SelfTest[i].Found, &r.SelfTest[i].Wanted)
	}
}

// makePrintable makes the texts printable that come from a user's kernels and peers.
func (r *Record) makePrintable() {
	makePrintable(&r.Run, &r.Family, &r.BaseOf, (*string)(&r.Status), &r.Reason, &r.Chosen, &r.Source,
		&r.Launch, &r.StagesBy)
	for i := range r.Stages {
		makePrintable(&r.Stages[i].Stage)
	}
}

// CheckValid refuses a run that no line may hold. It is called before every write and after every read.
func (r *Run) CheckValid() error {
	const help = "a run line needs an ID, a time, a device and a protocol"
	switch {
	case r.ID == "":
		return hint.Errorf(help, "run without an ID")
	case r.Time.IsZero():
		return hint.Errorf(help, "run %s without a time", r.ID)
	case r.Device.ID == "":
		return hint.Errorf(help, "run %s without a device", r.ID)
	case r.Protocol.Name == "":
		return hint.Errorf(help, "run %s without a protocol", r.ID)
	case !isDuration(r.FloorUS):
		return hint.Errorf(help, "run %s with a floor of %g us", r.ID, r.FloorUS)
	case r.Shard != nil && !(r.Shard.IsIn() && 0 <= r.Shard.Problems && r.Shard.Problems <= r.Shard.All):
		return hint.Errorf(help, "run %s with %d of %d problems as shard %s", r.ID, r.Shard.Problems, r.Shard.All,
			r.Shard)
	}
	if err := r.Device.Validate(); err != nil { // its ID names a folder
		return hint.Errorf(help, "run %s: %w", kernels.MakePrintable(r.ID, 64), err)
	}
	return nil
}

// CheckValid refuses a record that no line may hold. It is called before every write and after every
// read.
func (r *Record) CheckValid() error {
	if err := r.Problem.Validate(); err != nil {
		return err
	}
	err := r.checkFields()
	if err == nil {
		err = r.checkTimes()
	}
	if err == nil && r.Check != nil {
		err = checkCheck(r.Check)
	}
	if err == nil {
		return nil
	}
	return hint.Errorf("ok records have samples, all others a reason; times are finite microseconds above 0",
		"record of %s on %s has %w", r.Variant(), r.Problem, err)
}

// checkFields checks all fields but times and the check.
func (r *Record) checkFields() error {
	ok, samples := r.Status == kernels.StatusOK, len(r.SamplesUS)+len(r.Stages)
	switch {
	case r.Run == "":
		return fmt.Errorf("no run")
	case !isKey(r.Key) && (r.Key != "" || r.Family == Stream):
		return fmt.Errorf("key %q, not %d hex digits", r.Key, keyLen)
	case r.Time.IsZero():
		return fmt.Errorf("no time")
	case r.Family == "":
		return fmt.Errorf("no family")
	case !isWord(r.Status):
		return fmt.Errorf("status %q", r.Status)
	case r.Bytes <= 0:
		return fmt.Errorf("%d compulsory bytes", r.Bytes)
	case r.Finals < 0:
		return fmt.Errorf("%d finals", r.Finals)
	case r.ScratchBytes < 0:
		return fmt.Errorf("%d scratch bytes", r.ScratchBytes)
	case !ok && samples > 0:
		return fmt.Errorf("status %s and yet samples", r.Status)
	case !ok && r.Reason == "":
		return fmt.Errorf("status %s without a reason", r.Status)
	case ok && len(r.SamplesUS) == 0:
		return fmt.Errorf("status ok without samples")
	}
	return nil
}

// checkTimes checks that times are positive and that visits add up to the samples.
func (r *Record) checkTimes() error {
	switch {
	case !isDuration(r.StreamUS):
		return fmt.Errorf("a stream time of %g us", r.StreamUS)
	case !isDuration(r.WallMS):
		return fmt.Errorf("a wall time of %g ms", r.WallMS)
	case !isDuration(r.SearchUS):
		return fmt.Errorf("a search time of %g us", r.SearchUS)
	}
	rest := len(r.SamplesUS)
	for _, v := range r.Visits {
		if v < 1 || v > rest {
			return fmt.Errorf("visits of %d launches and %d samples", r.Visits, len(r.SamplesUS))
		}
		rest -= v
	}
	if len(r.Visits) > 0 && rest > 0 {
		return fmt.Errorf("visits of %d launches and %d samples", r.Visits, len(r.SamplesUS))
	}
	if i := badSample(r.BaseAgainUS); i >= 0 {
		return fmt.Errorf("a round of %g us", r.BaseAgainUS[i])
	}
	if i := badSample(r.SamplesUS); i >= 0 {
		return fmt.Errorf("a sample of %g us", r.SamplesUS[i])
	}
	for _, s := range r.Stages {
		if s.Stage == "" || len(s.SamplesUS) == 0 {
			return fmt.Errorf("a stage %q with %d samples", s.Stage, len(s.SamplesUS))
		}
		if i := badSample(s.SamplesUS); i >= 0 {
			return fmt.Errorf("a sample of %g us in stage %s", s.SamplesUS[i], s.Stage)
		}
	}
	return nil
}

// checkCheck refuses a check whose errors or times are no numbers.
func checkCheck(c *kernels.Check) error {
	for _, o := range c.Outputs {
		if !isFinite(o.MaxErr) || !isFinite(o.RelL2) {
			return fmt.Errorf("an error that is not finite in output %s", o.Name)
		}
	}
	switch {
	case !isFinite(c.Busy):
		return fmt.Errorf("a check time that is not finite")
	case !isDuration(c.Compile):
		return fmt.Errorf("a compile time of %g s", c.Compile)
	}
	return nil
}

// badSample finds the first sample that is no time, -1 if all are.
func badSample(us []float64) int {
	for i, s := range us {
		if !(s > 0) || math.IsInf(s, 0) {
			return i
		}
	}
	return -1
}

func isFinite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// isDuration says whether f is a time, or 0 for none.
func isDuration(f float64) bool { return f >= 0 && !math.IsInf(f, 0) }

// isKey says whether s has the form of a key.
func isKey(s string) bool {
	return len(s) == keyLen && strings.Trim(s, "0123456789abcdef") == ""
}

// isWord says whether s can be a status, one of later versions too: readers only ask whether it is ok.
func isWord(s kernels.Status) bool {
	return s != "" && strings.Trim(string(s), "abcdefghijklmnopqrstuvwxyz") == ""
}
