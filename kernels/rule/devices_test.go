package rule

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"normbench/internal/assert"
)

func TestReadDevice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "card.json")
	read := func(text string) (string, error) {
		assert.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		d, err := ReadDevice(path)
		return d.ID, err
	}
	for text, want := range map[string]string{
		deviceExample: "nvidia-l4",
		`{"arch": "sm_86", "sms": 72, "cache_bytes": 6291456, "shared_per_block": 101376}`: "unnamed",
	} {
		id, err := read(text)
		assert.That(t, err == nil && id == want, "%s: %q, %v", text, id, err)
	}
	for old, new := range map[string]string{`"sm_89"`: `"ada"`, `58`: `0`, `50331648`: `-1`,
		`101376`: `0`, `"sms"`: `"sm"`, `{`: `[`, `"NVIDIA L4"`: `"a", "id": "../x"`,
		`"arch"`: `"kind": "cpu", "arch"`} {
		text := strings.Replace(deviceExample, old, new, 1)
		_, err := read(text)
		assert.Refused(t, err, "card.json: ", text)
	}
}
