// Package worker drives a device in another process, by JSON lines over its
// standard input and output. A kernel that faults or hangs takes only that
// process with it: the Client says so as a Failure, starts the process again
// and serves on. Any command that speaks the protocol will do, so a device on
// another host is `ssh gpu1 normbench worker --device cuda:0`.
//
// Every request is one line with an id and an op; every answer is one line with
// the same id. Requests are answered in order.
//
//	hello [timeout_s]                  -> hello: protocol, version, kernels, info, peers
//	prefetch problem variants          -> (nothing but the id)
//	prepare problem variant            -> (nothing but the id), once it is compiled; kernels.Preparer
//	open problem inputs                -> (nothing but the id); inputs are a seed, a draw and its first row
//	check variant repeats              -> check
//	hash variant rows                  -> hashes, of the first rows of outputs: kernels.RowHasher
//	time variant options               -> timing
//	sense [beside]                     -> reading; beside are no other processes: kernels.ProcessIgnorer
//	close                              -> (nothing but the id); closes the open problem
//
// The answers of a device that compiles may also hold unkept, why that does not stay.
// An answer may instead hold failure (a variant that could not be measured) or
// error (with hint; trouble that is nobody's result). The end of its input ends
// the worker. An answer has 16 MiB at most; one that does not hold what was asked for
// (decode) is as good as a death.
package worker

import "normbench/kernels"

// Protocol is the version of this wire format.
const Protocol = 2

type request struct {
	ID       int                  `json:"id"`
	Op       string               `json:"op"`
	Problem  *kernels.Problem     `json:"problem,omitempty"`
	Inputs   *kernels.Inputs      `json:"inputs,omitempty"`
	Variants []kernels.Variant    `json:"variants,omitempty"`
	Repeats  int                  `json:"repeats,omitempty"`
	Rows     int64                `json:"rows,omitempty"`
	Options  *kernels.TimeOptions `json:"options,omitempty"`
	Beside   []int                `json:"beside,omitempty"`
	TimeoutS float64              `json:"timeout_s,omitempty"` // Options.Timeout

	on kernels.Problem // that is open, for who reads the answer
}

type answer struct {
	ID      int               `json:"id"`
	Hello   *hello            `json:"hello,omitempty"`
	Check   *kernels.Check    `json:"check,omitempty"`
	Timing  *kernels.Timing   `json:"timing,omitempty"`
	Hashes  kernels.RowHashes `json:"hashes,omitempty"`
	Reading *kernels.Reading  `json:"reading,omitempty"`
	Failure *kernels.Failure  `json:"failure,omitempty"`
	Error   string            `json:"error,omitempty"`
	Hint    string            `json:"hint,omitempty"`

	Unkept string `json:"unkept,omitempty"` // with every answer of a kernels.CacheWarner
}

type hello struct {
	Protocol int                `json:"protocol"`
	Version  string             `json:"version,omitempty"` // Program's, as is
	Kernels  string             `json:"kernels"`
	Info     kernels.DeviceInfo `json:"info"`
	Peers    []kernels.Peer     `json:"peers,omitempty"`
}
