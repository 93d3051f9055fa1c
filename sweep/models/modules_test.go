package models

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/peers"
)

// TorchVariable names a Python with the torch and transformers of scripts/torch-env.sh.
const TorchVariable = "NORMBENCH_TORCH"

// A hooked is what testdata/modules.py says of a model.
type hooked struct {
	Name string
	Runs []struct {
		Layers, Tokens int64
		Config         json.RawMessage // as transformers saves it, of a whole model
		Norms          []struct {
			Op, Pass, Class string
			M, N            int64
			Weight          string
			Bias            bool
			ZeroCentered    bool `json:"zero_centered"`
			GateFirst       bool `json:"gate_first"`
			Calls           float64
		}
		Others []string
		Unseen map[string]int
	}
}

// counts counts the calls of a run.
func (h *hooked) counts(run int) map[kernels.Problem]float64 {
	counts := map[kernels.Problem]float64{}
	for _, n := range h.Runs[run].Norms {
		p := kernels.Problem{Op: kernels.Op(n.Op), Pass: kernels.Pass(n.Pass), M: n.M, N: n.N, DType: kernels.FP32,
			Weight: kernels.FP32, Bias: n.Bias, ZeroCentered: n.ZeroCentered, NoWeight: n.Weight == "", GateFirst: n.GateFirst}
		counts[p] += n.Calls
	}
	return counts
}

// The norms of each model are those that hooks see in transformers' own modules, of real widths and
// heads, in one layer and in two. From these two follows what all layers have. A whole model, whose layers differ,
// runs all of them, and the config is read that transformers saves of it.
func TestModulesOfTransformersHaveTheSameNorms(t *testing.T) {
	python := os.Getenv(TorchVariable)
	if python == "" {
		assert.Needs(t, "TORCH", errors.New("$"+TorchVariable+" names no Python with torch and transformers"))
	}
	var input bytes.Buffer
	all := map[string]*Model{}
	list := Default().Models()
	// Small ones of the types and switches that no model of the file has.
	for line := range bytes.Lines(assert.File(t, "testdata/types.jsonl")) {
		c := assert.Value[struct {
			Name   string
			Whole  bool
			Config json.RawMessage
		}](t, string(line))
		if c.Whole {
			input.Write(line)
			all[c.Name] = nil
			continue
		}
		m, err := Default().readConfig(c.Name, c.Config)
		assert.NoError(t, err)
		list = append(list, m)
	}
	for _, m := range list {
		config := map[string]any{"model_type": m.kind}
		for k, v := range m.config {
			config[k] = v
		}
		line, err := json.Marshal(map[string]any{"name": m.Name, "config": config})
		assert.NoError(t, err)
		input.Write(append(line, '\n'))
		all[m.Name] = m
	}
	env, err := peers.PutCapture(t.TempDir(), 0)
	assert.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), python, "testdata/modules.py")
	cmd.Env, cmd.Stdin, cmd.Stderr = append(env, "OMP_NUM_THREADS=1"), &input, os.Stderr
	out, err := cmd.StdoutPipe()
	assert.NoError(t, err)
	assert.NoError(t, cmd.Start())
	for d := json.NewDecoder(out); ; {
		var h hooked
		if err := d.Decode(&h); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		t.Run(h.Name, func(t *testing.T) {
			if m := all[h.Name]; m != nil {
				m.checkHooked(t, &h)
			} else {
				h.checkWhole(t)
			}
		})
		delete(all, h.Name)
	}
	assert.NoError(t, cmd.Wait())
	assert.Equal(t, len(all), 0, "models that were not run")
}

// checkWhole compares the norms of a whole model with those that its saved config gives.
func (h *hooked) checkWhole(t *testing.T) {
	run := h.Runs[0]
	m, err := Default().readConfig(h.Name, run.Config)
	assert.NoError(t, err)
	s, err := m.Step(StepQuery{Tokens: run.Tokens, TP: 1, SP: 1, Passes: []kernels.Pass{kernels.Fwd, kernels.Bwd},
		DType: kernels.FP32, Weight: kernels.FP32})
	assert.NoError(t, err)
	assert.Same(t, s.Counts(), h.counts(0), "%s", run.Config)
	assert.That(t, len(run.Others) == 0 && len(run.Unseen) == 0, "%v and %v were not mapped", run.Others, run.Unseen)
}

func (m *Model) checkHooked(t *testing.T, h *hooked) {
	layersKey := m.configKey("layers")
	step := func(layers, tokens int64) *Step {
		c := *m
		c.config = maps.Clone(m.config)
		c.config[layersKey] = layers
		s, err := c.Step(StepQuery{Tokens: tokens, TP: 1, SP: 1, Passes: []kernels.Pass{kernels.Fwd, kernels.Bwd},
			DType: kernels.FP32, Weight: kernels.FP32})
		assert.NoError(t, err)
		return s
	}
	for i, run := range h.Runs {
		assert.Same(t, step(run.Layers, run.Tokens).Counts(), h.counts(i), "layers", run.Layers)
		assert.That(t, len(run.Others) == 0 && len(run.Unseen) == 0, "%v and %v were not mapped", run.Others,
			run.Unseen)
	}
	one, two := h.counts(0), h.counts(1)
	layers := m.config[layersKey]
	whole, problems := map[kernels.Problem]float64{}, 0.0
	for p, n := range two {
		whole[p] = one[p] + (n-one[p])*float64(layers-1)
		problems += whole[p]
	}
	assert.Same(t, step(layers, h.Runs[0].Tokens).Counts(), whole, "all layers")
	t.Logf("%d layers: %d problems, %v calls", layers, len(whole), problems)
}
