package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	"normbench/kernels"
)

// A CodeHash identifies the code that a variant runs, whatever its name; see families.Identity.
type CodeHash struct{ Source, Launch string }

// String writes the hash as Key takes it; without a Launch, the source alone.
func (c CodeHash) String() string {
	if c.Launch == "" {
		return c.Source
	}
	return c.Source + "/" + c.Launch
}

// Key computes the key of a measurement. A sweep skips a variant whose key its records file has; of two
// records with one key the later counts. The key is the first 16 bytes, in hex, of the SHA-256 of
//
//   - the problem and the variant,
//   - the device's ID, architecture, SMs, driver and compiler: after an update of either the code or its
//     clock may differ, so all is measured again. The UUID is left out, so that equal cards of a CI pool
//     share a results folder; the run line keeps it,
//   - the code and the launches: a CodeHash as a string,
//   - the protocol,
//   - the family that was measured against its own default, if one was: its search is another one.
//
// The seed, the host and the version of normbench do not count.
func Key(p kernels.Problem, v kernels.Variant, d kernels.DeviceInfo, source string,
	pr Protocol, baseOf string) string {
	return newKeyer(&Run{Device: d, Protocol: pr}).key(p.String(), v.String(), source, baseOf)
}

// A keyer computes the keys of a run's records; it encodes device and protocol only once.
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

// key computes the key of one record; see Key.
func (k *keyer) key(problem, variant, code, baseOf string) string {
	text := append(appendParts(make([]byte, 0, 1<<10), problem, variant), k.device...)
	text = append(appendParts(text, code), k.protocol...)
	if baseOf != "" { // the keys of all others stay as they were
		text = appendParts(text, baseOf)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:keyLen/2])
}

// appendParts appends texts, each with its length before it, so that no two lists of texts look alike.
func appendParts(b []byte, parts ...string) []byte {
	for _, s := range parts {
		b = strconv.AppendInt(b, int64(len(s)), 10)
		b = append(append(append(b, ':'), s...), '\n')
	}
	return b
}

const keyLen = 32
