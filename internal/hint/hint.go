// Package hint carries the next step beside an error, so that every trouble a
// user meets is one line that names the thing and one line that helps.
package hint

import (
	"errors"
	"fmt"
)

// A hintError is an error with the next step for the user.
type hintError struct {
	err  error
	hint string
}

func (h *hintError) Error() string { return h.err.Error() }
func (h *hintError) Unwrap() error { return h.err }

// Errorf formats an error as fmt.Errorf does and attaches hint to it.
func Errorf(hint, format string, args ...any) error {
	return &hintError{err: fmt.Errorf(format, args...), hint: hint}
}

// With attaches hint to err. A nil err stays nil.
func With(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &hintError{err: err, hint: hint}
}

// Of returns the outermost hint in err's chain, or "".
func Of(err error) string {
	var h *hintError
	if errors.As(err, &h) {
		return h.hint
	}
	return ""
}
