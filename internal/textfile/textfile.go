// Package textfile reads files that people and other programs wrote, within bounds.
package textfile

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"normbench/internal/hint"
)

// Bounds in bytes, many times what honest files have: their readers take some ten times the
// memory, and a device file or a pipe may have no end.
const (
	Small = 4 << 20   // what people write
	Large = 256 << 20 // what programs write, such as the samples of a live compare
)

// PackedHelp is the hint about a packed file that is cut short.
const PackedHelp = "the file is damaged or cut short: take it from a copy, or unpack what can be read " +
	"with `zcat` or `bzip2 -dc`"

// packedExts end the names of packed files.
var packedExts = []string{".gz", ".bz2"}

// Ext returns the extension of a name; for a packed file that of the file in it.
func Ext(path string) string {
	ext := filepath.Ext(path)
	if slices.Contains(packedExts, ext) {
		ext = filepath.Ext(strings.TrimSuffix(path, ext))
	}
	return ext
}

// FindPacked returns path where it exists, else the name of its packed form that does, else path.
func FindPacked(path string) string {
	for _, ext := range append([]string{""}, packedExts...) {
		if st, err := os.Stat(path + ext); err == nil && st.Mode().IsRegular() {
			return path + ext
		}
	}
	return path
}

// A Reader reads an open text file, unpacked where it is packed by gzip or bzip2.
type Reader struct {
	io.Reader
	io.Closer
	Packed bool
}

// Open opens a file, and unpacks it if its first bytes say that it is packed. Only an error of a packed
// file has a hint.
func Open(path string) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	packed := &countingReader{Reader: f}
	b := bufio.NewReaderSize(packed, 1<<16)
	var z io.Reader
	switch magic, _ := b.Peek(4); {
	case bytes.HasPrefix(magic, []byte("\x1f\x8b")):
		if z, err = gzip.NewReader(b); err != nil {
			f.Close()
			return nil, hint.With(err, PackedHelp)
		}
	case len(magic) == 4 && bytes.HasPrefix(magic, []byte("BZh")) && '1' <= magic[3] && magic[3] <= '9':
		z = bzip2.NewReader(b)
	default:
		return &Reader{b, f, false}, nil
	}
	return &Reader{&boundedReader{Reader: z, packed: packed}, f, true}, nil
}

// Bounds of what a packed file unpacks to: records are a tenth packed, zeros a thousandth.
const (
	maxRatio    = 100
	maxUnpacked = 64 << 30
	free        = 64 << 20 // bytes that may have any ratio
)

// A countingReader counts the bytes that are read.
type countingReader struct {
	io.Reader
	n int64
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n += int64(n)
	return n, err
}

// A boundedReader fails for a packed file that unpacks to too much, before that is kept anywhere.
type boundedReader struct {
	io.Reader
	packed *countingReader
	n      int64
}

func (r *boundedReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.n += int64(n)
	if r.n > free && r.n > maxRatio*r.packed.n || r.n > maxUnpacked {
		return 0, hint.Errorf("if it is meant, unpack it yourself with `gunzip` or `bunzip2`",
			"its %d MiB unpack to more than %d MiB", r.packed.n>>20, r.n>>20)
	}
	return n, err
}

// Read reads a file as ReadAny does, and refuses one of another tool: see CheckForeign.
func Read(path string, max int64) ([]byte, error) {
	data, err := ReadAny(path, max)
	if err != nil {
		return nil, err
	}
	return data, CheckForeign(data)
}

// ReadAny reads the text of a file of up to max bytes, packed or not, without a byte order mark.
// Only an error of a packed file has a hint.
func ReadAny(path string, max int64) ([]byte, error) {
	if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Size() > max {
		return nil, tooLarge(max)
	}
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, max+1))
	switch {
	case err != nil && f.Packed:
		return nil, hint.With(err, PackedHelp)
	case err != nil:
		return nil, err
	case int64(len(data)) > max:
		return nil, tooLarge(max)
	}
	return TrimMark(data), nil
}

func tooLarge(max int64) error { return fmt.Errorf("it has more than %d MiB", max>>20) }

// TrimMark removes a byte order mark from a text.
func TrimMark(data []byte) []byte { return bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) }
