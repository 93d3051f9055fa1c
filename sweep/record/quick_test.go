package record

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"os"
	"slices"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"normbench/internal/durable"
)

// sameAsSlow says whether quick takes a line, and that the decoder of any JSON reads the same of it.
func sameAsSlow(t *testing.T, d *decoder, b []byte) bool {
	t.Helper()
	l := d.empty()
	if !d.quick(b, l) {
		return false
	}
	got, want := keep(&l.Record), new(line)
	if err := jsonv2.Unmarshal(b, want, whole); err != nil {
		t.Fatalf("quick reads what is none: %v\n%s", err, b)
	}
	want.takeOldNames()
	if l.head != want.head || l.Problem != want.Problem || l.Config != want.Config {
		t.Fatalf("%v %q %q, want %v %q %q", l.head, l.Problem, l.Config, want.head, want.Problem, want.Config)
	}
	if diff := cmp.Diff(&want.Record, got, cmpOpts, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%s\n%s", diff, b)
	}
	return true
}

// What quick reads of a recorded sweep and search is what the decoder of any JSON does, and it reads nearly all
// of it: all but the stream's records, which have a state.
func TestQuick(t *testing.T) {
	f, err := os.Open("../../results/nvidia-h200/records.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	d := newDecoder(false)
	records, quick := 0, 0
	in := bufio.NewScanner(z)
	in.Buffer(nil, maxLine)
	for in.Scan() {
		if b := in.Bytes(); bytes.Contains(b[:40], []byte(`"record"`)) && !bytes.Contains(b, []byte(`"state":`)) {
			records++
			if sameAsSlow(t, d, b) {
				quick++
			}
		}
	}
	if in.Err() != nil || records < 1000 || quick < records*99/100 {
		t.Errorf("%d of %d, %v", quick, records, in.Err())
	}
	// All that a record can have but a state, a wrong output and a text beyond ASCII.
	run := testRun("r1")
	full := testRecord(run, 0)
	full.Launch, full.Visits, full.SearchUS, full.Finals, full.Chosen, full.Entry, full.BaseAgainUS = "abc", []int{10, 20}, 1.5, 2, "the fastest", true, []float64{1, 2}
	full.StagesBy, full.GapUS, full.Bytes, full.Check.Unordered, full.Check.Digest, full.Check.Differing, full.Check.Compile = "cupti", 0.25, 7, true, 1<<63, 3, 0.5
	// The old name of base_again_us, read by both decoders.
	old := strings.Replace(strings.TrimSpace(lines(t, full)), `"base_again_us":`, `"twin_us":`, 1)
	old = string(durable.Seal([]byte(old[:strings.LastIndex(old, `,"crc":"`)] + "}")))
	if !sameAsSlow(t, d, []byte(old)) {
		t.Errorf("not %s", old)
	}
	if _, _, r, err := newDecoder(false).decode([]byte(old)); err != nil || !slices.Equal(r.BaseAgainUS, full.BaseAgainUS) {
		t.Errorf("%+v, %v", r, err)
	}
	wrong := wrongRecord(run, 1)
	wrong.Reason, wrong.Check.Outputs = "as asked", nil
	for _, r := range []*Record{full, wrong} {
		if text := strings.TrimSpace(lines(t, r)); !sameAsSlow(t, d, []byte(text)) {
			t.Errorf("not %s", text)
		}
	}
}

// FuzzQuick changes the text of a line: what quick then takes, the decoder of any JSON takes for the same.
func FuzzQuick(f *testing.F) {
	run := testRun("r1")
	whole := lines(f, testRecord(run, 0))
	whole = whole[:strings.LastIndex(whole, `,"crc":"`)]
	f.Add(whole)
	for _, x := range [][2]string{{`"seed":42`, `"seed":042`}, {`"seed":42`, `"seed":42,"seed":42`}, {`"base":true`, `"base":false`}, {`"repeats":3`, `"repeats":3.0`},
		{`"busy":`, `"busy":-`}, {`"k1"`, "\"k\t1\""}, {`"k1"`, `"k\n1"`}, {`,"stages":[`, `,"stages":[,`}, {`]}]`, `]},]`}, {`"samples_us":[`, `"samples_us":[1e3,`}} {
		f.Add(strings.Replace(whole, x[0], x[1], 1))
	}
	f.Fuzz(func(t *testing.T, text string) { sameAsSlow(t, newDecoder(false), durable.Seal([]byte(text+"}"))) })
}
