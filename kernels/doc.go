// Package kernels holds the words of normbench as values: what is computed
// (Problem), how (Family, Config, Variant), what is launched (Plan), and what
// runs it (Device).
//
// Everything here is pure: a Plan is computed from a Problem, a Config and a
// DeviceInfo, and can be printed, compared and hashed without any device. The
// kernels themselves are in families/, the float64 answers they are checked
// against in reference/, and the things that run them in cpu/, cuda/ and
// worker/.
//
// M is the number of rows, N the number of columns of every problem.
package kernels

import "embed"

// Sources are the Go files of this package, whose helpers host stages call.
//
//go:embed *.go
var Sources embed.FS
