package hint

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"shapes", "samples", "te", "fast-llm"}
	for word, want := range map[string]string{"shape": "shapes", "sampels": "samples", "fastllm": "fast-llm", "nosuch": "", "": "", "t": "", "shapes": "shapes"} {
		if got := Nearest(word, names); got != want {
			t.Errorf("Nearest(%q) is %q, want %q", word, got, want)
		}
	}
	if got := DidYouMean("shape", names, "`list` names them"); got != "did you mean shapes? `list` names them" {
		t.Errorf("got %q", got)
	}
}
