package record

import (
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"

	"normbench/internal/durable"
	"normbench/internal/hint"
)

// Pack compresses a records file to its packed form, which is checked in, and removes the file. A writer
// unpacks it again.
func Pack(p durable.Place) error {
	f, err := os.Open(p.String())
	if err != nil {
		return err
	}
	defer f.Close()
	in, out := io.Pipe()
	go func() {
		z, _ := gzip.NewWriterLevel(out, gzip.BestCompression)
		_, err := io.Copy(z, f)
		out.CloseWithError(errors.Join(err, z.Close()))
	}()
	if err := p.Sibling(filepath.Base(p.Name) + ".gz").WriteFrom(in); err != nil {
		return hint.Errorf(durable.Help(err), "%s.gz: %w", p, durable.Cause(err))
	}
	return p.Remove()
}
