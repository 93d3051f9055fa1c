package kernels

import "strings"

// A Peer is another library's kernels for the same ops, measured beside ours. Each is a family of its
// own, without knobs.
type Peer struct {
	Name    string `json:"name"`              // "liger": the family is peer/liger; or a callable's
	System  string `json:"system"`            // "Liger-Kernel"
	Version string `json:"version,omitempty"` // "liger-kernel 0.8.5"
	Missing string `json:"missing,omitempty"` // why it is not there, "" where it is
	// Builds says that it "compiles" before it runs, or "tunes" what it compiles.
	Builds string `json:"builds,omitempty"`
}

const peerPrefix = "peer/"

// Callable begins the name of a peer that is a function of a user's: py:FILE.py:FUNCTION. Its
// family has that name too.
const Callable = "py:"

// PeerVariant returns the only variant of a peer.
func PeerVariant(name string) Variant {
	if strings.HasPrefix(name, Callable) {
		return Variant{Family: name}
	}
	return Variant{Family: peerPrefix + name}
}

// PeerName returns the name of the peer that the family stands for; false if it is no peer's.
func PeerName(family string) (string, bool) {
	if strings.HasPrefix(family, Callable) {
		return family, true
	}
	return strings.CutPrefix(family, peerPrefix)
}
