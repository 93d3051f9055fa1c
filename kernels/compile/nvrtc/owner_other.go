//go:build !unix

package nvrtc

import "io/fs"

func otherWriter(fs.FileInfo) string { return "" }
