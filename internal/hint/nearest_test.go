package hint_test

import (
	"testing"

	"normbench/internal/assert"
	"normbench/internal/hint"
)

func TestNearestNameForgivesTypos(t *testing.T) {
	names := []string{"shapes", "samples", "te", "fast-llm"}
	for word, want := range map[string]string{"shape": "shapes", "sampels": "samples",
		"fastllm": "fast-llm", "nosuch": "", "": "", "t": "", "shapes": "shapes"} {
		assert.Equal(t, hint.NearestName(word, names), want, "Nearest", word)
	}
	assert.Equal(t, hint.DidYouMean("shape", names, "`list` names them"),
		"did you mean shapes? `list` names them")
}
