package lab

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devices/local"
	"normbench/kernels/families"
)

// Every name that list devices prints of a device is a name that --device takes, in any case.
func TestDeviceTakesEveryNameThatIsListed(t *testing.T) {
	l := New(context.Background(), &console.Console{}, families.New(), func() {})
	t.Chdir(t.TempDir())
	for _, id := range []string{"nvidia-h200", "nvidia-h100-80gb-hbm3"} { // so that the table has folders
		assert.NoError(t, os.MkdirAll(filepath.Join("results", id), 0o755))
	}
	table, err := l.DeviceTable()
	assert.NoError(t, err)
	names := 0
	for _, row := range table.Rows {
		want, err := local.Known(l.Registry, row[0])
		assert.NoError(t, err, row[0])
		for _, name := range []string{row[0], row[1], row[len(row)-1]} {
			for _, spelled := range []string{name, strings.ToLower(name), strings.ToUpper(name),
				strings.ReplaceAll(name, " ", "-")} {
				if name == "" || row[0] == "cpu" && kernels.Slug(name) == "" {
					continue
				}
				if strings.HasPrefix(spelled, "RESULTS") { // a path
					continue
				}
				got, err := local.Known(l.Registry, spelled)
				assert.NoError(t, err, spelled)
				assert.Equal(t, got.Name, want.Name, spelled)
				names++
			}
		}
	}
	assert.That(t, names >= 50, "%d names", names)
	assert.Equal(t, local.Resolve(l.Registry, table.Rows[0][1]), "cpu", "the cpu's own name, to run on")
	for _, name := range []string{"h100-sxm", "h101", "NVIDIA", "", "results/"} {
		_, err := local.Known(l.Registry, name)
		assert.Refused(t, err, "unknown device", name)
		assert.That(t, strings.Contains(hint.Of(err), "h100, a100"), "%q: %s", name, hint.Of(err))
	}
}
