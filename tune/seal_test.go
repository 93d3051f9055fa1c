package tune

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/sweep/record"
)

// A flipped digit of a tuned table is an error; a hand edit that takes the
// checksum away is not.
func TestChecksum(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	assert.NoError(t, table(t).Write(durable.Place{Name: path}))
	data := assert.File(t, path)
	edited := bytes.Replace(data, []byte(`"samples": 30`), []byte(`"samples": 31`), 1)
	assert.Must(t, !bytes.Equal(edited, data), "nothing to edit")
	_, err := parse("f", edited)
	assert.That(t, err != nil &&
		strings.HasPrefix(err.Error(), "f: the file's checksum does not match") &&
		strings.Contains(hint.Of(err), `"crc"`), "got %v", err)
	i := bytes.LastIndexByte(edited, ',')
	_, err = parse("f", append(edited[:i:i], "\n}\n"...))
	assert.That(t, err == nil, "without its checksum: %v", err)
}

// Of two searches of a problem the later in the file counts, also where the clock
// was set back between them.
func TestFinalsByPlace(t *testing.T) {
	var es []record.Entry
	for i, v := range []string{"f@w1", "f@w2"} {
		run := &record.Run{ID: v, Time: time.Unix(1e9-int64(i)*3600, 0),
			Device: kernels.DeviceInfo{ID: "d"}, Protocol: record.Protocol{
				Phase: record.PhaseFinal}}
		e := entry(t, p1, v, 10)
		e.Run, e.Final = run, &record.Final{SearchUS: 10, Chosen: "fastest", Place: 2 + i}
		es = append(es, e)
	}
	for range 2 {
		picks := Pick(es)
		assert.That(t, len(picks) == 1 && picks[0].Config.String() == "w2", "picked %+v", picks)
		es[0], es[1] = es[1], es[0]
	}
}
