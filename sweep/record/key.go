package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	"normbench/kernels"
)

// A CodeHash identifies what a variant runs, whatever its name: see families.Identity.
type CodeHash struct{ Source, Launch string }

// String is what Key takes; without a Launch, the source alone.
func (c CodeHash) String() string {
	if c.Launch == "" {
		return c.Source
	}
	return c.Source + "/" + c.Launch
}

// Key identifies a measurement: a sweep skips what its records file has under
// the same key, and of two records with one key the later counts. It is the
// first 16 bytes, in hex, of the SHA-256 of
//
//   - the problem and the variant,
//   - the device's ID, architecture, units, driver and compiler: after an
//     update of either the code or its clock may differ, so all is measured
//     again. The UUID is left out, so that equal cards of a CI pool share a
//     results folder; the run line keeps it,
//   - the code and the launches: a Code as a string,
//   - the protocol,
//   - the family that was measured against itself, if one was: its search is another one.
//
// The seed, the host and the version of normbench do not count.
func Key(p kernels.Problem, v kernels.Variant, d kernels.DeviceInfo, source string,
	pr Protocol, baseOf string) string {
	return newKeyer(&Run{Device: d, Protocol: pr}).key(p.String(), v.String(), source, baseOf)
}

// A keyer makes the keys of a run's records.
type keyer struct {
	run              *Run
	device, protocol []byte
}

func newKeyer(run *Run) *keyer {
	protocol, err := json.Marshal(run.Protocol) // a field added later, empty, leaves the key as it was
	if err != nil {
		panic(err) // of plain values
	}
	d := run.Device
	return &keyer{run, appendParts(nil, d.ID, d.Arch, fmt.Sprint(d.SMs), d.Driver, d.Compiler),
		appendParts(nil, string(protocol))}
}

func (k *keyer) key(problem, variant, code, baseOf string) string {
	text := append(appendParts(make([]byte, 0, 1<<10), problem, variant), k.device...)
	text = append(appendParts(text, code), k.protocol...)
	if baseOf != "" { // the keys of all others stay as they were
		text = appendParts(text, baseOf)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:keyLen/2])
}

// appendParts keeps neighbours apart by their lengths.
func appendParts(b []byte, parts ...string) []byte {
	for _, s := range parts {
		b = strconv.AppendInt(b, int64(len(s)), 10)
		b = append(append(append(b, ':'), s...), '\n')
	}
	return b
}

const keyLen = 32
