package kernels

import "testing"

// A knob goes by its key and its name.
func TestParseKnob(t *testing.T) {
	for _, want := range Knobs() {
		for _, s := range []string{want.Key, want.Name} {
			if k, err := ParseKnob(s); err != nil || k != want {
				t.Errorf("%s: %v, %v", s, k, err)
			}
		}
	}
	if k, err := ParseKnob(""); err == nil {
		t.Errorf("no name is %s", k.Name)
	}
}
