//go:build !unix

package nvrtc

import "io/fs"

func foreign(fs.FileInfo) string { return "" }
