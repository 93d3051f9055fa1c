//go:build !(cuda && cgo)

package nvml

import "fmt"

// A Monitor reads the state of one GPU. There is none without cgo and the build tag cuda.
type Monitor struct{}

// Open fails with [ErrNoNVML]: the program was built without cgo or the tag cuda.
func Open(uuid string, own ...int) (*Monitor, error) {
	return nil, fmt.Errorf("%w: built without cgo or the tag cuda", ErrNoNVML)
}

// Close does nothing.
func (m *Monitor) Close() error { return nil }

// Static is empty.
func (m *Monitor) Static() Static { return Static{} }

// Sample fails.
func (m *Monitor) Sample() (Reading, error) { return Reading{}, ErrNoNVML }

// Beside does nothing.
func (m *Monitor) Beside(...int) {}
