package tune

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/sweep/record"
)

// A flipped digit of a tuned table is an error; a hand edit that takes the
// checksum away is not.
func TestChecksum(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	if err := table(t).Write(durable.Place{Name: path}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	edited := bytes.Replace(data, []byte(`"samples": 30`), []byte(`"samples": 31`), 1)
	if bytes.Equal(edited, data) {
		t.Fatal("nothing to edit")
	}
	if _, err := parse("f", edited); err == nil || !strings.HasPrefix(err.Error(), "f: the file's checksum does not match") || !strings.Contains(hint.Of(err), `"crc"`) {
		t.Errorf("got %v", err)
	}
	i := bytes.LastIndexByte(edited, ',')
	if _, err := parse("f", append(edited[:i:i], "\n}\n"...)); err != nil {
		t.Errorf("without its checksum: %v", err)
	}
}

// Of two searches of a problem the later in the file counts, also where the clock
// was set back between them.
func TestFinalsByPlace(t *testing.T) {
	var es []record.Entry
	for i, v := range []string{"f@w1", "f@w2"} {
		run := &record.Run{ID: v, Time: time.Unix(1e9-int64(i)*3600, 0), Device: kernels.DeviceInfo{ID: "d"}, Protocol: record.Protocol{Phase: record.PhaseFinal}}
		e := entry(t, p1, v, 10)
		e.Run, e.Final = run, &record.Final{SearchUS: 10, Chosen: "fastest", Place: 2 + i}
		es = append(es, e)
	}
	for range 2 {
		if picks := Pick(es); len(picks) != 1 || picks[0].Config.String() != "w2" {
			t.Errorf("picked %+v", picks)
		}
		es[0], es[1] = es[1], es[0]
	}
}
