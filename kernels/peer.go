package kernels

import "strings"

// A Peer is somebody else's kernels: a library that does the same ops, measured
// beside ours. Each is a family of its own, without knobs.
type Peer struct {
	Name    string `json:"name"`              // "liger": the family is peer/liger
	System  string `json:"system"`            // "Liger-Kernel"
	Version string `json:"version,omitempty"` // "liger-kernel 0.8.5"
	Missing string `json:"missing,omitempty"` // why it is not there, "" where it is
}

const peerPrefix = "peer/"

// PeerVariant is the only variant of a peer.
func PeerVariant(name string) Variant { return Variant{Family: peerPrefix + name} }

// PeerName is the name of the peer whose family this is, if it is one.
func PeerName(family string) (string, bool) { return strings.CutPrefix(family, peerPrefix) }
