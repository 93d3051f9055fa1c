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

// Validate says what is wrong with a device's info that comes from a file or from another
// process, or is nil.
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

// CheckID says what is wrong with a device's ID as the name of a folder, or nil. What reads one
// from a file or another process calls it, and nothing else has to.
func CheckID(id string) error {
	if err := CheckName(id); err != nil {
		return hint.Errorf(
			"an ID such as nvidia-h200 has letters, digits, dots, - and _, up to 100",
			"device ID %.120q %w", id, err)
	}
	return nil
}

// CheckName says why a name from a file or another process may not be a part of a path, or nil.
func CheckName(name string) error {
	if len(name) > 100 || !idRE.MatchString(name) {
		return errors.New("names no folder")
	}
	return nil
}

// maxName is how long a name of elsewhere may be.
const maxName = 256

// UnmarshalJSON reads a device's info. Whoever reads one, of a file or of a worker, has names that
// can be printed.
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

// Slug keeps letters and digits of a device's name, in lower case, for an ID.
func Slug(name string) string {
	parts := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	return strings.Join(parts, "-")
}

// MakePrintable makes one line for a terminal of a text of elsewhere, of at most so many bytes:
// white space is a space, and what a terminal may act on is U+FFFD.
func MakePrintable(s string, limit int) string {
	return truncate(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsGraphic(r):
			return r
		}
		return utf8.RuneError
	}, truncate(s, limit)), limit)
}

// truncate shortens a text to so many bytes, and says so.
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

// A DeviceLoss is a device that does not come back. That is nobody's result: what was to be
// measured on it is left for others.
type DeviceLoss struct {
	Device string // in words: `worker "ssh gpu1 normbench worker"`
	Reason string
}

func (g *DeviceLoss) Error() string { return g.Device + " is gone: " + g.Reason }
