package kernels

import (
	"errors"
	"regexp"

	"normbench/internal/hint"
)

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
