package kernels

import "testing"

func TestCheckMain(t *testing.T) {
	for _, test := range []struct {
		stages []string
		want   string
	}{
		{nil, ""},
		{[]string{"k1", "k2"}, "k1"},
		{[]string{"zero", "k1", "transpose"}, "k1"}, // what clears amax takes nothing
		{[]string{"dx", "dw"}, "dx"},
	} {
		c := &Check{}
		for i, s := range test.stages {
			c.Resources = append(c.Resources, Resource{Stage: s, Registers: i + 1})
		}
		got := ""
		if m := c.Main(); m != nil {
			got = m.Stage
		}
		if got != test.want {
			t.Errorf("main of %q is %q, want %q", test.stages, got, test.want)
		}
	}
	if (*Check)(nil).Main() != nil {
		t.Error("no check has a main kernel")
	}
}
