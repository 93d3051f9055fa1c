package kernels

import (
	"encoding/json"
	"strings"
	"testing"
)

// What was written before knobs and fields had the field's words reads as what is written now.
func TestOldNames(t *testing.T) {
	var d DeviceInfo
	var r Resource
	for text, v := range map[string]any{`{"id":"gpu","units":132,"regs_per_unit":65536}`: &d, `{"stage":"k1","programs":264}`: &r} {
		if err := json.Unmarshal([]byte(text), v); err != nil {
			t.Fatal(err)
		}
	}
	if d.ID != "gpu" || d.SMs != 132 || d.RegsPerSM != 65536 || r.Stage != "k1" || r.CTAs != 264 {
		t.Errorf("%+v, %+v", d, r)
	}
	for _, v := range []any{&d, &r} {
		again, err := json.Marshal(v)
		if err != nil || strings.Contains(string(again), "unit") || strings.Contains(string(again), "programs") {
			t.Errorf("%s, %v", again, err)
		}
	}
	for old, want := range map[string]*Knob{"programs": CTAs, "programs_per_sm": PerSM} {
		if k, err := ParseKnob(old); err != nil || k != want {
			t.Errorf("%s: %v, %v", old, k, err)
		}
	}
	if k, err := ParseKnob(""); err == nil {
		t.Errorf("no name is %s", k.Name)
	}
}
