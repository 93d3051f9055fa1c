package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"normbench/internal/hint"
	"normbench/kernels"
)

// Serve answers requests from in on out with the device that open returns,
// until in ends. The device is opened by the first hello, so that a device that
// is not there is an answer, not a silent death. open is told how long a step may take, 0 where
// that is not known: who waits longer ends this process. is says which program serves.
func Serve(ctx context.Context, in io.Reader, out io.Writer, is Program,
	open func(step time.Duration) (kernels.Device, error)) error {
	s := &server{ctx: ctx, is: is, open: open}
	defer s.close()
	lines := bufio.NewReader(in)
	enc := json.NewEncoder(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if err == io.EOF {
				return nil
			}
			return fmt.Errorf("read request: %w", err)
		}
		var req request
		if err := json.Unmarshal(line, &req); err != nil {
			return hint.Errorf("`normbench sweep --worker COMMAND` starts a worker and speaks to "+
				"it; people do not", "malformed request on standard input: %w", err)
		}
		a := answer{ID: req.ID}
		if err := s.do(&req, &a); err != nil {
			if !errors.As(err, &a.Failure) {
				a.Error, a.Hint = err.Error(), hint.Of(err)
			}
		}
		if d, ok := s.dev.(kernels.CacheWarner); ok {
			a.Unkept = d.CacheWarning()
		}
		if err := enc.Encode(&a); err != nil {
			return fmt.Errorf("write answer: %w", err)
		}
	}
}

// Limits of a request: a line from elsewhere must not make a device
// allocate without end.
const (
	maxCount = 1 << 20
	maxFlush = 1 << 36
)

type server struct {
	ctx   context.Context
	is    Program
	open  func(step time.Duration) (kernels.Device, error)
	dev   kernels.Device
	bench kernels.Bench
}

func (s *server) close() {
	s.closeBench()
	if s.dev != nil {
		s.dev.Close()
	}
}

func (s *server) closeBench() (err error) {
	if s.bench != nil {
		err, s.bench = s.bench.Close(), nil
	}
	return err
}

func (s *server) do(req *request, a *answer) (err error) {
	if s.dev == nil {
		step := time.Duration(max(req.TimeoutS, 0) * float64(time.Second))
		if s.dev, err = s.open(step); err != nil {
			s.dev = nil
			return err
		}
	}
	if req.Problem == nil && slices.Contains([]string{"prefetch", "prepare", "open"}, req.Op) {
		return fmt.Errorf("%s without a problem", req.Op)
	}
	if req.Op == "open" && req.Inputs == nil {
		return errors.New("open without inputs")
	}
	switch req.Op {
	case "hello":
		a.Hello = &hello{Protocol: Protocol, Version: s.is.Version, Kernels: s.is.Kernels, Info: s.dev.Info()}
		if d, ok := s.dev.(interface{ Peers() []kernels.Peer }); ok {
			a.Hello.Peers = d.Peers()
		}
	case "sense":
		a.Reading = &kernels.Reading{}
		if n, ok := s.dev.(kernels.ProcessIgnorer); ok {
			n.IgnoreProcesses(req.Beside...)
		}
		if sensor, ok := s.dev.(kernels.Sensor); ok {
			*a.Reading, err = sensor.Sense(s.ctx)
		}
	case "prefetch":
		s.dev.Prefetch(*req.Problem, req.Variants)
	case "prepare":
		if d, ok := s.dev.(kernels.Preparer); ok && len(req.Variants) == 1 {
			return d.Prepare(s.ctx, *req.Problem, req.Variants[0])
		}
	case "open":
		s.closeBench()
		s.bench, err = s.dev.Open(s.ctx, *req.Problem, *req.Inputs)
	case "check", "hash", "time":
		return s.measure(req, a)
	case "close":
		return s.closeBench()
	default:
		return fmt.Errorf("unknown op %q", req.Op)
	}
	return err
}

func (s *server) measure(req *request, a *answer) error {
	switch {
	case s.bench == nil:
		return fmt.Errorf("%s without an open problem", req.Op)
	case len(req.Variants) != 1:
		return fmt.Errorf("%s takes one variant", req.Op)
	}
	v := req.Variants[0]
	if req.Op == "check" {
		if req.Repeats > maxCount {
			return fmt.Errorf("check asks for %d repeats", req.Repeats)
		}
		c, err := s.bench.Check(s.ctx, v, req.Repeats)
		a.Check = &c
		return err
	}
	if req.Op == "hash" {
		if req.Rows < 1 || req.Rows > kernels.MostHashed {
			return fmt.Errorf("hash asks for %d rows", req.Rows)
		}
		var err error
		a.Hashes, err = kernels.HashRows(s.ctx, s.bench, v, req.Rows)
		return err
	}
	o := req.Options
	switch {
	case o == nil:
		return fmt.Errorf("time without options")
	case o.Samples < 0 || o.Samples > maxCount || o.Flush < 0 || o.Flush > maxFlush:
		return fmt.Errorf("time asks for %d samples with a flush of %d bytes", o.Samples, o.Flush)
	}
	t, err := s.bench.Time(s.ctx, v, *o)
	a.Timing = &t
	return err
}
