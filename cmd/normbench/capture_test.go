package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/sweep/shapes"
)

// torchOf is a Python with PyTorch, which nightly tests have.
func torchOf(t *testing.T) string {
	python := os.Getenv("NORMBENCH_TORCH")
	if python == "" {
		assert.Needs(t, "TORCH", errors.New("$NORMBENCH_TORCH names no Python with torch"))
	}
	return python
}

// captured runs `normbench capture` on a program and reads what it wrote.
func captured(t *testing.T, want int, flags []string, program ...string) (*shapes.GroupFile, string) {
	t.Helper()
	t.Setenv("OMP_NUM_THREADS", "1")
	file := filepath.Join(t.TempDir(), "captured.yaml")
	code, stdout, stderr := normbench(append(append([]string{"capture", "--out", file}, flags...),
		append([]string{"--"}, program...)...))
	assert.Must(t, code == want, "exit code %d, not %d:\n%s\n%s", code, want, stdout, stderr)
	f, err := shapes.Load(file)
	assert.NoError(t, err)
	return f, stdout + stderr
}

// stepOf are the calls of one step of testdata/capture/train.py with so many rows. Of its four blocks the
// first runs plainly; checkpointing runs the other three forward twice, and each backward once.
func stepOf(t *testing.T, rows int) map[kernels.Problem]float64 {
	heads := 4 * rows
	calls := map[kernels.Problem]float64{}
	for _, norm := range []string{fmt.Sprintf("layernorm/PASS/%dx64/fp32+bias", rows),
		fmt.Sprintf("rmsnorm/PASS/%dx64/fp32", rows), fmt.Sprintf("rmsnorm/PASS/%dx64/fp32+residual", rows),
		fmt.Sprintf("rmsnorm/PASS/%dx16/fp32+zc", heads), fmt.Sprintf("rmsnorm/PASS/%dx16/fp32", heads),
		fmt.Sprintf("l2norm/PASS/%dx16/fp32", heads)} {
		calls[devicetest.Problem(t, strings.Replace(norm, "PASS", "fwd", 1))] = 1 + 3*2
		calls[devicetest.Problem(t, strings.Replace(norm, "PASS", "bwd", 1))] = 4
	}
	for _, pass := range []string{"fwd", "bwd"} {
		for _, norm := range []string{"layernorm/%s/%dx64/fp32", "rmsnormgated/%s/%dx64/fp32", "rmsnormgated/%s/%dx64/fp32+sigmoid+gatefirst"} {
			calls[devicetest.Problem(t, fmt.Sprintf(norm, pass, rows))] = 1
		}
		calls[devicetest.Problem(t, fmt.Sprintf("rmsnorm/%s/%dx64/fp32", pass, rows))]++
	}
	return calls
}

const trainer = "../../kernels/devices/peers/testdata/capture/train.py"

// A capture has every norm of a training with its exact calls, forward and backward, under both kinds of
// checkpointing, and what is no problem is said.
func TestCaptureHasEveryNormOfATraining(t *testing.T) {
	python := torchOf(t)
	f, said := captured(t, 0, nil, python, trainer, "3")
	assert.Same(t, f.Names(), []string{"step"})
	assert.Same(t, f.Step("step").Counts(), stepOf(t, 48))
	for _, text := range []string{"loss ", "18 problems, 222 calls in 3 steps",
		"not mapped: TanhNorm, 3 calls: its output is no RMSNorm", "not mapped: GroupNorm, 3 calls: "} {
		assert.That(t, strings.Contains(said, text), "%q is not said:\n%s", text, said)
	}
}

// Gated norms of public models are known by what they do: which gate, and whether it is first. One that normalizes
// groups of columns is no problem of ours.
func TestCaptureKnowsGatedNormsOfModels(t *testing.T) {
	python := torchOf(t)
	f, said := captured(t, 0, nil, python, "-c", `
import torch
from transformers.models.kimi_linear.modeling_kimi_linear import KimiLinearRMSNormGated
from transformers.models.mamba2.modeling_mamba2 import MambaRMSNormGated
from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextRMSNormGated
torch.manual_seed(1)
x, z = torch.randn(2, 8, 64), torch.randn(2, 8, 64)
norms = torch.nn.ModuleList([MambaRMSNormGated(64, 64), Qwen3NextRMSNormGated(64), KimiLinearRMSNormGated(64), MambaRMSNormGated(64, 16)])
for norm in norms:
    norm(x, z)
norms[0](x), norms[1](x, gate=z)
`)
	counts := f.Step("step").Counts()
	for text, calls := range map[string]float64{"rmsnorm/fwd/16x64/fp32": 1, "rmsnormgated/fwd/16x64/fp32": 2,
		"rmsnormgated/fwd/16x64/fp32+gatefirst": 1, "rmsnormgated/fwd/16x64/fp32+sigmoid": 1} {
		assert.Equal(t, counts[devicetest.Problem(t, text)], calls, text, said)
	}
	assert.That(t, len(counts) == 4 && strings.Contains(said, "not mapped: MambaRMSNormGated, 1 call: it normalizes groups"),
		"%v: %s", counts, said)
}

// After --steps the program ends, and one that fails keeps its exit code.
func TestCaptureEndsTheProgramAfterItsSteps(t *testing.T) {
	python := torchOf(t)
	f, said := captured(t, 0, []string{"--steps", "1"}, python, trainer, "1000000")
	assert.Same(t, f.Step("step").Counts(), stepOf(t, 48))
	assert.That(t, !strings.Contains(said, "loss"), "it went on:\n%s", said)
	f, _ = captured(t, 7, nil, python, trainer, "2", "fail")
	assert.Same(t, f.Step("step").Counts(), stepOf(t, 48))
}

// Ranks of torchrun are one group where they run the same, else one for each.
func TestCaptureGroupsRanksThatRunTheSame(t *testing.T) {
	run := []string{torchOf(t), "-m", "torch.distributed.run", "--nproc-per-node", "2", trainer, "2"}
	f, said := captured(t, 0, nil, run...)
	assert.Same(t, f.Names(), []string{"step"})
	assert.Same(t, f.Step("step").Counts(), stepOf(t, 48))
	assert.That(t, strings.Contains(said, "ranks 0-1: 18 problems, 148 calls in 2 steps"), "%s", said)
	f, _ = captured(t, 0, nil, append(run, "uneven")...)
	assert.Same(t, f.Names(), []string{"rank0", "rank1"})
	assert.Same(t, f.Step("rank0").Counts(), stepOf(t, 48))
	assert.Same(t, f.Step("rank1").Counts(), stepOf(t, 96))
}

// What torch.compile took is said. TorchScript, forked children and a sitecustomize of the user work as
// without a capture, whose numbers are the same too.
func TestCaptureLeavesProgramsAlone(t *testing.T) {
	python := torchOf(t)
	dir := t.TempDir()
	program := filepath.Join(dir, "program.py")
	assert.Write(t, filepath.Join(dir, "sitecustomize.py"), "import builtins\nbuiltins.mine = 'mine'\n")
	assert.Write(t, program, `
import os, torch, torch.nn as nn, torch.nn.functional as F
class RMS(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(64))
    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))
@torch.jit.script
def scripted(x, w):
    return F.layer_norm(x, [64], w)
torch.manual_seed(1)
x = torch.randn(8, 64)
net = nn.Sequential(nn.Linear(64, 64), RMS(), nn.LayerNorm(64))
print(mine, scripted(x, torch.ones(64)).shape)
eager = net(x)
if os.fork() == 0:
    net(x), net(x)
    os._exit(0)
os.wait()
fast = torch.compile(nn.Sequential(RMS(), nn.Linear(64, 64)), backend="eager")
print(fast(x).shape, torch.func.vmap(lambda r: F.layer_norm(r, (64,)))(x).shape)
print("sum %.9f" % eager.pow(2).sum().item())
`)
	t.Setenv("PYTHONPATH", dir)
	f, said := captured(t, 0, nil, python, program)
	counts := f.Step("step").Counts()
	assert.Equal(t, counts[devicetest.Problem(t, "rmsnorm/fwd/8x64/fp32")], 1.0, said)
	assert.Equal(t, counts[devicetest.Problem(t, "layernorm/fwd/8x64/fp32+bias")], 1.0, said)
	assert.That(t, strings.Contains(said, "not seen, as torch.compile took their forward or it was not "+
		"called: modules 1 of RMS; "), "%s", said)
	plain, err := exec.Command(python, program).CombinedOutput()
	assert.NoError(t, err, string(plain))
	for line := range strings.Lines(string(plain)) {
		assert.That(t, strings.Contains(said, line), "with a capture it does not print %q:\n%s", line, said)
	}
}

// A Python without torch is said, after its program has run.
func TestCaptureSaysThatTorchIsMissing(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err == nil {
		err = exec.Command(python, "-c", "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is not None)").Run()
	}
	assert.Needs(t, "NO_TORCH", err)
	file := filepath.Join(t.TempDir(), "captured.yaml")
	code, stdout, stderr := normbench([]string{"capture", "--out", file, "--", python, "-c", "print('mine')"})
	assert.That(t, code == exitTrouble && stdout == "mine\n" && strings.Contains(stderr, " has no torch\n") &&
		strings.Contains(stderr, "hint: install PyTorch there"), "exit code %d\n%s\n%s", code, stdout, stderr)
	_, err = os.Stat(file)
	assert.That(t, os.IsNotExist(err), "a file of nothing: %v", err)
}
