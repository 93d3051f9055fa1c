package families

import (
	"math"

	"normbench/kernels"
)

// The host stages of the gated ops' plain kernels: plain_*gated_*.cu in float32.

func init() {
	for _, op := range []kernels.Op{"rmsnormgated", "layernormgated"} {
		plainHosts[op] = map[string]kernels.HostStage{"forward": hostGatedForward,
			"backward": hostGatedBackward, "gradients": hostGatedGradients}
	}
}

func sigmoid(z float32) float32 { return float32(1 / (1 + math.Exp(-float64(z)))) }

// hostGate loads columns from j on of row i of the gate into act: act(z). slope, if it is there, gets the
// derivative.
func hostGate(h *kernels.HostRun, act, slope []float32, i, j int64) {
	h.Mem["z"].Load(act, i*h.Problem.N+j)
	for k, z := range act {
		up, down := sigmoid(z), sigmoid(-z)
		a, d := z*up, up*(1+z*down)
		if h.Problem.Sigmoid {
			a, d = up, up*down
		}
		if act[k] = a; slope != nil {
			slope[k] = d
		}
	}
}

// multiply multiplies a row with another, element by element.
func multiply(row, by []float32) {
	for j, v := range by {
		row[j] *= v
	}
}

// hostGatedForward is forward of plain_*gated_fwd.cu.
func hostGatedForward(h *kernels.HostRun, pid int) {
	p, spec := h.Problem, h.Problem.Op.Spec()
	row, act := h.Row(0, p.N), h.Row(1, p.N)
	wf, bf := hostWeights(h)
	eachTileRow(h, pid, func(i int64) {
		h.Mem["x"].Load(row, i*p.N)
		hostGate(h, act, nil, i, 0)
		if p.GateFirst {
			multiply(row, act)
		}
		if spec.Centered {
			mean := sum(row) / float32(p.N)
			for j := range row {
				row[j] -= mean
			}
			h.Mem["mean"].Set(i, mean)
		}
		r := float32(1 / math.Sqrt(float64(dot(row, row)/float32(p.N)+float32(spec.Eps))))
		h.Mem["rstd"].Set(i, r)
		for j := range row {
			row[j] *= r * wf[j]
		}
		for j, b := range bf {
			row[j] += b
		}
		if !p.GateFirst {
			multiply(row, act)
		}
		h.Mem["y"].Store(i*p.N, row)
	})
}

// hostGatedRow loads columns from j on of row i: xhat, d = dy*act(z) or dy where the gate is first, and
// the gate. slope may be nil.
func hostGatedRow(h *kernels.HostRun, xhat, d, act, slope []float32, i, j int64) {
	p := h.Problem
	h.Mem["x"].Load(xhat, i*p.N+j)
	h.Mem["dy"].Load(d, i*p.N+j)
	hostGate(h, act, slope, i, j)
	if p.GateFirst {
		multiply(xhat, act)
	} else {
		multiply(d, act)
	}
	r, mean := hostStats(h, i)
	for k := range xhat {
		xhat[k] = (xhat[k] - mean) * r
	}
}

// hostGatedBackward is backward of plain_*gated_bwd.cu.
func hostGatedBackward(h *kernels.HostRun, pid int) {
	p, spec := h.Problem, h.Problem.Op.Spec()
	xhat, d, act, slope, from := h.Row(0, p.N), h.Row(1, p.N), h.Row(2, p.N), h.Row(3, p.N), h.Row(4, p.N)
	wf, bf := hostWeights(h)
	eachTileRow(h, pid, func(i int64) {
		hostGatedRow(h, xhat, d, act, slope, i, 0)
		multiply(d, wf)
		c1, c2 := dot(d, xhat)/float32(p.N), float32(0)
		if spec.Centered {
			c2 = sum(d) / float32(p.N)
		}
		r, _ := hostStats(h, i)
		for j, v := range xhat {
			d[j] = r * (d[j] - v*c1 - c2)
		}
		if p.GateFirst { // z gets what x has left of d
			h.Mem["x"].Load(from, i*p.N)
			multiply(from, d)
			multiply(d, act)
		} else { // and else what dy has left of xhat*w + b
			h.Mem["dy"].Load(from, i*p.N)
			multiply(xhat, wf)
			for j, b := range bf {
				xhat[j] += b
			}
			multiply(from, xhat)
		}
		multiply(from, slope)
		h.Mem["dx"].Store(i*p.N, d)
		h.Mem["dz"].Store(i*p.N, from)
	})
}

// hostGatedGradients is gradients of plain_*gated_bwd.cu.
func hostGatedGradients(h *kernels.HostRun, pid int) {
	p := h.Problem
	lo := int64(pid * h.Launch.Block)
	n := min(int64(h.Launch.Block), p.N-lo)
	xhat, d, act, dw, db := h.Row(0, n), h.Row(1, n), h.Row(2, n), h.Row(3, n), h.Row(4, n)
	clear(dw)
	clear(db)
	if p.Accumulate {
		h.Mem["dw_in"].Load(dw, lo)
		if p.Bias {
			h.Mem["db_in"].Load(db, lo)
		}
	}
	for i := range p.M {
		hostGatedRow(h, xhat, d, act, nil, i, lo)
		for j, v := range d {
			dw[j] += v * xhat[j]
			db[j] += v
		}
	}
	h.Mem["dw"].Store(lo, dw)
	if p.Bias {
		h.Mem["db"].Store(lo, db)
	}
}
