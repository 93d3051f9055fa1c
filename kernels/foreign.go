package kernels

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"normbench/internal/hint"
)

// Validate refuses a device's info that cannot be true. It is called for one that comes from a file or
// from another process.
func (d *DeviceInfo) Validate() error {
	if err := CheckID(d.ID); err != nil {
		return err
	}
	switch {
	case d.SMs < 0 || d.SMs > 1<<20:
		return fmt.Errorf("device %s has %d SMs", d.ID, d.SMs)
	case min(d.CacheBytes, d.MemoryBytes, d.PeakRate, int64(d.SharedPerBlock), int64(d.RegsPerSM)) < 0:
		return fmt.Errorf("device %s has a size below 0", d.ID)
	}
	return nil
}

var idRE = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*$`)

// CheckID refuses a device's ID that cannot name a folder. Only readers of files and of other processes
// need to call it.
func CheckID(id string) error {
	if err := CheckName(id); err != nil {
		return hint.Errorf(
			"an ID such as nvidia-h200 has letters, digits, dots, - and _, up to 100",
			"device ID %.120q %w", id, err)
	}
	return nil
}

// CheckName refuses a name from a file or another process that must not be a part of a path.
func CheckName(name string) error {
	if len(name) > 100 || !idRE.MatchString(name) {
		return errors.New("names no folder")
	}
	return nil
}

// maxName is the most bytes of a name from a file or another process.
const maxName = 256

// UnmarshalJSON reads a device's info and makes its names printable, as it comes from a file or a
// worker.
func (d *DeviceInfo) UnmarshalJSON(text []byte) error {
	type plain DeviceInfo
	if err := json.Unmarshal(text, (*plain)(d)); err != nil {
		return err
	}
	for _, s := range []*string{&d.ID, &d.Kind, &d.Name, &d.UUID, &d.Arch, &d.Driver,
		&d.DriverVersion, &d.Compiler} {
		*s = MakePrintable(*s, maxName)
	}
	return nil
}

// Slug makes an ID of a device's name: its letters and digits in lower case, joined by dashes.
func Slug(name string) string {
	parts := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	return strings.Join(parts, "-")
}

// colour matches what switches a terminal's colour, as compilers write into their errors.
var colour = regexp.MustCompile("\x1b\\[[0-9;]*m")

// MakePrintable makes one line for a terminal of a text from a file or another process, of at most limit
// bytes. Colours are dropped, white space becomes a space, and a character that a terminal may act on U+FFFD.
func MakePrintable(s string, limit int) string {
	return truncate(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsGraphic(r):
			return r
		}
		return utf8.RuneError
	}, truncate(colour.ReplaceAllString(s, ""), limit)), limit)
}

// truncate shortens a text to limit bytes, and marks that with dots.
func truncate(s string, limit int) string {
	const more = "..."
	if len(s) <= limit {
		return s
	}
	n := max(limit-len(more), 0)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + more
}

// A DeviceLoss is the error of a device that does not come back. No variant gets it as its result:
// others measure what was left.
type DeviceLoss struct {
	Device string // in words: `worker "ssh gpu1 normbench worker"`
	Reason string
}

func (g *DeviceLoss) Error() string { return g.Device + " is gone: " + g.Reason }
