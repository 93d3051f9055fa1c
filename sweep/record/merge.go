package record

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/kernels"
)

// A Union is what several records files of one kind of device hold together, each run and each record once. It keeps
// where each record stands, and not what it says, so that it has room for millions. Close it.
type Union struct {
	Runs  []*Run // in the order of time
	Notes Notes

	files []*unionFile
	texts map[string][]byte // of the runs' lines, by ID
	lines []unionLine       // of records, in the order of the union
	order []kernels.Problem // of the lines
}

// A unionFile is one of the files of a union.
type unionFile struct {
	path     string
	file     *os.File // of what is unpacked
	runs     []*Run
	texts    map[string][]byte
	lines    []unionLine
	problems []kernels.Problem // that the lines have, by index
	sources  map[string]string // of families
	notes    Notes
}

// A unionLine is a record.
type unionLine struct {
	file, length, run, problem int32 // run and problem are indices
	begin                      int64
	time                       int64 // nanoseconds since 1970
	sum                        [16]byte
	variant, code, contest     uint64 // hashes; contest is 0 for a stream
}

// OpenUnion reads records files.
func OpenUnion(paths []string) (*Union, error) {
	u := &Union{files: make([]*unionFile, len(paths)), texts: map[string][]byte{}}
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, path := range paths {
		g.Go(func() (err error) {
			u.files[i], err = readUnionFile(path)
			return err
		})
	}
	err := g.Wait()
	if err == nil {
		err = u.join()
	}
	if err != nil {
		u.Close()
		return nil, err
	}
	return u, nil
}

// Close closes the files.
func (u *Union) Close() {
	for _, f := range u.files {
		if f != nil && f.file != nil {
			f.file.Close()
		}
	}
}

// Records counts the records.
func (u *Union) Records() int { return len(u.lines) }

// Problems lists the problems, in the order of tables.
func (u *Union) Problems() []kernels.Problem { return u.order }

var unionSeed = maphash.MakeSeed()

// readUnionFile reads a file and keeps where its records are.
func readUnionFile(path string) (f *unionFile, err error) {
	f = &unionFile{path: path, texts: map[string][]byte{}, sources: map[string]string{}}
	if f.file, err = openUnpacked(path); err != nil {
		return f, err
	}
	runs, problems := map[string]int32{}, map[string]int32{}
	var text []byte
	r := newReader(path, func(it *item) error {
		n := int(it.end - it.begin)
		text = slices.Grow(text[:0], n)[:n]
		if _, err := f.file.ReadAt(text, it.begin); err != nil {
			return err
		}
		body, err := bodyOf(text)
		if err != nil {
			return err
		}
		if it.record == nil {
			if _, again := runs[it.run.ID]; !again {
				runs[it.run.ID] = int32(len(f.runs))
				f.runs, f.texts[it.run.ID] = append(f.runs, it.run), bytes.Clone(body)
			} else if !bytes.Equal(f.texts[it.run.ID], body) {
				return twoRuns(it.run.ID, path, path)
			}
			return nil
		}
		rec := it.record
		if source, known := f.sources[rec.Family]; known && source != rec.Source {
			return twoSources(rec.Family, source, path, rec.Source, path)
		}
		f.sources[rec.Family] = rec.Source
		p, known := problems[it.problem]
		if !known {
			p = int32(len(f.problems))
			problems[it.problem], f.problems = p, append(f.problems, rec.Problem)
		}
		x := unionLine{begin: it.begin, length: int32(n), run: runs[rec.Run], problem: p, time: rec.Time.UnixNano(),
			variant: maphash.String(unionSeed, it.variant), code: maphash.String(unionSeed, it.code)}
		sum := sha256.Sum256(body)
		copy(x.sum[:], sum[:])
		if rec.Family != Stream {
			x.contest = maphash.String(unionSeed, rec.BaseOf+"\n"+it.problem)
		}
		f.lines = append(f.lines, x)
		return nil
	})
	err = r.read(io.NewSectionReader(f.file, 0, 1<<62))
	f.notes = r.notes
	return f, err
}

// openUnpacked opens a file to be read at any place. Of a packed file that is a copy without a name.
func openUnpacked(path string) (*os.File, error) {
	in, err := open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if !in.Packed {
		return os.Open(path)
	}
	temp, err := os.CreateTemp("", "normbench-records-*")
	if err != nil {
		return nil, err
	}
	os.Remove(temp.Name())
	if _, err := io.Copy(temp, in); err != nil {
		temp.Close()
		return nil, hint.Errorf(cmp.Or(hint.Of(err), textfile.PackedHelp), "%s: %w", path, durable.Cause(err))
	}
	return temp, nil
}

// bodyOf returns what a line says, without what says where it stands: its append and its checksum. It is an object that
// is not sealed yet.
func bodyOf(line []byte) ([]byte, error) {
	line = bytes.TrimSpace(textfile.TrimMark(line))
	if body, ok := sealedBody(line); ok {
		return body, nil
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(line))
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	out := append(make([]byte, 0, len(line)), '{')
	for d.PeekKind() == '"' {
		name, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		var member [64]byte
		key := append(member[:0], name...)
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		switch string(key) {
		case `"more"`, `"of"`, `"crc"`:
			continue
		}
		if bytes.ContainsAny(value, " \t") && bytes.ContainsAny(value[:1], "{[") {
			if err := value.Compact(); err != nil {
				return nil, err
			}
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, key...), ':'), value...)
	}
	return append(out, '}'), nil
}

// sealedBody is bodyOf of a line that this package wrote, of which the parts to leave out are where encode puts them.
func sealedBody(line []byte) ([]byte, bool) {
	if _, ok := durable.CheckSeal(line); !ok || bytes.Contains(line, []byte(`": `)) {
		return nil, false
	}
	line = line[:len(line)-len(durable.Seal([]byte("{}")))+1] // without the checksum
	at := bytes.IndexByte(line, ',')
	if at < 0 {
		return nil, false
	}
	at++
	kind := bytes.IndexByte(line[at:], ',')
	if kind < 0 {
		return nil, false
	}
	at += kind + 1
	rest := line[at:]
	for _, name := range []string{`"more":`, `"of":`} {
		if after, ok := bytes.CutPrefix(rest, []byte(name)); ok {
			end := bytes.IndexByte(after, ',')
			if end < 0 {
				return nil, false
			}
			rest = after[end+1:]
		}
	}
	return append(append(append(make([]byte, 0, len(line)+32), line[:at]...), rest...), '}'), true
}

// twoSources makes the error of a family with two sources.
func twoSources(family, a, in, b, other string) error {
	return hint.Errorf(codeHelp, "the kernels of %s differ: %s in %s, %s in %s", family, a, in, b, other)
}

// codeHelp is the way out where kernels differ.
const codeHelp = "sweep again what is of other kernels, or leave its folder out"

func twoRuns(id, a, b string) error {
	return hint.Errorf("copy the files again from where they were written", "run %s of %s is another one in %s", id, a, b)
}

// join makes one order of what the files have, and refuses what does not belong together.
func (u *Union) join() error {
	runs := map[string]int32{}
	where := map[string]*unionFile{} // of runs
	for _, f := range u.files {
		u.Notes = append(u.Notes, f.notes...)
		for _, r := range f.runs {
			if other := where[r.ID]; other == nil {
				where[r.ID], u.texts[r.ID] = f, f.texts[r.ID]
				u.Runs = append(u.Runs, r)
			} else if !bytes.Equal(other.texts[r.ID], f.texts[r.ID]) {
				return twoRuns(r.ID, other.path, f.path)
			}
		}
	}
	slices.SortFunc(u.Runs, func(a, b *Run) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID)) })
	for i, r := range u.Runs {
		runs[r.ID] = int32(i)
	}
	if err := u.checkAlike(where); err != nil {
		return err
	}
	if err := u.checkSources(); err != nil {
		return err
	}
	known := map[kernels.Problem]int32{}
	for _, f := range u.files {
		for _, p := range f.problems {
			if _, ok := known[p]; !ok {
				known[p] = 0
				u.order = append(u.order, p)
			}
		}
	}
	slices.SortFunc(u.order, func(a, b kernels.Problem) int {
		return cmp.Or(CompareProblems(a, b), cmp.Compare(a.String(), b.String()))
	})
	for i, p := range u.order {
		known[p] = int32(i)
	}
	for at, f := range u.files {
		for _, x := range f.lines {
			x.file, x.run, x.problem = int32(at), runs[f.runs[x.run].ID], known[f.problems[x.problem]]
			u.lines = append(u.lines, x)
		}
		f.lines, f.texts = nil, nil
	}
	slices.SortFunc(u.lines, func(a, b unionLine) int {
		return cmp.Or(cmp.Compare(a.problem, b.problem), cmp.Compare(a.run, b.run), cmp.Compare(a.time, b.time),
			bytes.Compare(a.sum[:], b.sum[:]))
	})
	u.lines = slices.CompactFunc(u.lines, func(a, b unionLine) bool {
		return a.sum == b.sum && a.run == b.run && a.problem == b.problem
	})
	return u.checkCode()
}

// checkAlike refuses runs of two kinds of device, or of two protocols.
func (u *Union) checkAlike(where map[string]*unionFile) error {
	device := func(d kernels.DeviceInfo) string { return fmt.Sprintf("%s (%s, %d SMs)", d.ID, d.Arch, d.SMs) }
	phases := map[string]*Run{}
	var grid, search *Run
	for _, r := range u.Runs {
		first := u.Runs[0]
		if a, b := device(first.Device), device(r.Device); a != b {
			return hint.Errorf("merge each kind of card by itself: name the folders of one", "%s has records of %s, and %s of %s",
				where[first.ID].path, a, where[r.ID].path, b)
		}
		if r.Protocol.Phase == "" {
			grid = cmp.Or(grid, r)
		} else {
			search = cmp.Or(search, r)
		}
		if grid != nil && search != nil {
			return hint.Errorf(protocolHelp, "%s has a grid, and %s a search", where[grid.ID].path, where[search.ID].path)
		}
		other := cmp.Or(phases[r.Protocol.Phase], r)
		phases[r.Protocol.Phase] = other
		if a, b := other.Protocol, r.Protocol; a != b {
			return hint.Errorf(protocolHelp, "%s and %s are of two protocols: %s, and %s", where[other.ID].path, where[r.ID].path,
				differing(a, b), differing(b, a))
		}
	}
	return nil
}

// protocolHelp is the way out where protocols differ.
const protocolHelp = "merge what was measured in one way; sweep the rest again, into a folder of its own"

// differing writes the fields of a protocol in which another differs.
func differing(p, other Protocol) string {
	fields := func(p Protocol) map[string]json.RawMessage {
		text, _ := json.Marshal(p)
		m := map[string]json.RawMessage{}
		json.Unmarshal(text, &m) //nolint:errcheck // it was written just now
		return m
	}
	mine, theirs := fields(p), fields(other)
	var list []string
	for name := range mine {
		if !bytes.Equal(mine[name], theirs[name]) {
			list = append(list, name+" "+strings.Trim(string(mine[name]), `"`))
		}
	}
	for name := range theirs {
		if mine[name] == nil {
			list = append(list, "no "+name)
		}
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// checkCode refuses records of two versions of a kernel: of one variant of a problem with another source, or another launch.
func (u *Union) checkCode() error {
	first := map[uint64]*unionLine{} // by variant
	for i := range u.lines {
		x := &u.lines[i]
		if i > 0 && u.lines[i-1].problem != x.problem {
			clear(first)
		}
		other := first[x.variant]
		if other == nil {
			first[x.variant] = x
		} else if other.code != x.code {
			return u.otherCode(other, x)
		}
	}
	return nil
}

// checkSources refuses a family that has two sources, on whatever problems.
func (u *Union) checkSources() error {
	first := map[string]*unionFile{}
	for _, f := range u.files {
		for _, family := range slices.Sorted(maps.Keys(f.sources)) {
			other := first[family]
			if other == nil {
				first[family] = f
			} else if a, b := other.sources[family], f.sources[family]; a != b {
				return twoSources(family, a, other.path, b, f.path)
			}
		}
	}
	return nil
}

// otherCode makes the error of two records whose kernels differ.
func (u *Union) otherCode(a, b *unionLine) error {
	x, err := u.record(a)
	if err != nil {
		return err
	}
	y, err := u.record(b)
	if err != nil {
		return err
	}
	what := func(r *Record, at *unionLine) string {
		return fmt.Sprintf("%s (%s, normbench %s)", u.files[at.file].path, CodeHash{r.Source, r.Launch}, u.Runs[at.run].Tool)
	}
	return hint.Errorf(codeHelp, "the kernels of %s differ: %s and %s",
		x.Family, what(x, a), what(y, b))
}

// body reads what a record's line says.
func (u *Union) body(x *unionLine) ([]byte, error) {
	text := make([]byte, x.length)
	if _, err := u.files[x.file].file.ReadAt(text, x.begin); err != nil {
		return nil, fmt.Errorf("%s: %w", u.files[x.file].path, durable.Cause(err))
	}
	body, err := bodyOf(text)
	sum := sha256.Sum256(body)
	if err != nil || !bytes.Equal(sum[:16], x.sum[:]) {
		return nil, u.changed(x)
	}
	return body, nil
}

// changed makes the error of a file whose line is not where it was.
func (u *Union) changed(x *unionLine) error {
	return hint.Errorf("merge again when nothing writes there", "%s was changed while it was read", u.files[x.file].path)
}

// record reads a record.
func (u *Union) record(x *unionLine) (*Record, error) {
	body, err := u.body(x)
	if err != nil {
		return nil, err
	}
	it := &item{}
	if newDecoder().decode(it, body); it.err != nil {
		return nil, it.err
	}
	return it.record, nil
}

// Write writes the union as one records file: the runs in the order of time, then the records problem by problem. The
// bytes do not depend on the order of the files, nor on how often one came, nor on which of them were merged
// before.
func (u *Union) Write(to io.Writer) error {
	w := bufio.NewWriterSize(to, 1<<20)
	write := func(body []byte) error {
		_, err := w.Write(append(durable.Seal(body), '\n'))
		return err
	}
	for _, r := range u.Runs {
		if err := write(bytes.Clone(u.texts[r.ID])); err != nil {
			return err
		}
	}
	for i := range u.lines {
		body, err := u.body(&u.lines[i])
		if err == nil {
			err = write(body)
		}
		if err != nil {
			return err
		}
	}
	return w.Flush()
}

// EachProblem hands on the records of each problem as a file of its own, several at once, and lasts until all are
// done.
func (u *Union) EachProblem(each func(f *File) error) error {
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for begin := 0; begin < len(u.lines); {
		end := begin
		for end < len(u.lines) && u.lines[end].problem == u.lines[begin].problem {
			end++
		}
		group := u.lines[begin:end]
		g.Go(func() error {
			f, d := &File{Runs: u.Runs}, newDecoder()
			var text []byte
			for i := range group {
				x := &group[i]
				text = slices.Grow(text[:0], int(x.length))[:x.length]
				if _, err := u.files[x.file].file.ReadAt(text, x.begin); err != nil {
					return fmt.Errorf("%s: %w", u.files[x.file].path, durable.Cause(err))
				}
				it := &item{run: u.Runs[x.run]}
				if d.decode(it, bytes.TrimSpace(textfile.TrimMark(text))); it.err != nil || it.record == nil {
					return cmp.Or(it.err, u.changed(x))
				}
				if it.record.Key == "" {
					it.record.Key = newKeyer(it.run).key(it.problem, it.variant, it.code, it.record.BaseOf)
				}
				if err := f.add(it); err != nil {
					return err
				}
			}
			return each(f)
		})
		begin = end
	}
	return g.Wait()
}

// A Gap is a shard of which something is missing.
type Gap struct {
	Shard
	Command []string // of another shard, or of this one before it ended
	Done    int      // problems that are there; of a grid, variants
	Of      int      // 0 where nothing of the shard is there
}

// Gaps lists the shards that are not there, or not to their end. Of a sweep's shards all must be there, unless those that
// are have all problems.
func (u *Union) Gaps() (gaps []Gap) {
	type part struct {
		Shard
		command []string
		done    map[uint64]bool
		grid    bool
	}
	type name struct {
		plan         string
		index, count int
	}
	parts, of := map[name]*part{}, map[int32]*part{} // by run
	for i, r := range u.Runs {
		if r.Shard == nil {
			continue
		}
		at := name{r.Shard.Plan, r.Shard.Index, r.Shard.Count}
		if parts[at] == nil {
			parts[at] = &part{done: map[uint64]bool{}}
		}
		x := parts[at]
		x.Shard, x.command, x.grid, of[int32(i)] = *r.Shard, r.Command, r.Protocol.Phase == "", x
	}
	for i := range u.lines {
		line := &u.lines[i]
		if x := of[line.run]; x == nil || line.contest == 0 {
			continue
		} else if x.grid {
			x.done[line.contest^line.variant*31] = true
		} else {
			x.done[line.contest] = true
		}
	}
	plans := map[name][]*part{}
	for at, x := range parts {
		at.index = 0
		plans[at] = append(plans[at], x)
	}
	for at, list := range plans {
		there, all := 0, map[int]*part{}
		for _, x := range list {
			there += x.Problems
			all[x.Index] = x
		}
		for i := 1; i <= at.count; i++ {
			x := all[i]
			switch {
			case x == nil && there < list[0].All:
				s := list[0].Shard
				s.Index, s.Problems = i, 0
				gaps = append(gaps, Gap{Shard: s, Command: list[0].command})
			case x == nil:
			case x.grid && len(x.done) < x.Variants:
				gaps = append(gaps, Gap{x.Shard, x.command, len(x.done), x.Variants})
			case !x.grid && len(x.done) < x.Problems:
				gaps = append(gaps, Gap{x.Shard, x.command, len(x.done), x.Problems})
			}
		}
	}
	slices.SortFunc(gaps, func(a, b Gap) int {
		return cmp.Or(cmp.Compare(a.Plan, b.Plan), cmp.Compare(a.Count, b.Count), cmp.Compare(a.Index, b.Index))
	})
	return gaps
}

// Find lists the records files of a results folder: its own, those of its devices, and those of shards below it. A file is
// itself.
func Find(path string) ([]string, error) {
	if st, err := os.Stat(path); err != nil || !st.IsDir() {
		f, err := open(path)
		if err == nil {
			f.Close()
		}
		return []string{path}, err
	}
	var files []string
	for _, pattern := range []string{".", "*", "shard-*-of-*/*"} {
		dirs, err := filepath.Glob(filepath.Join(globbed(path), pattern))
		if err != nil {
			return nil, err
		}
		for _, dir := range dirs {
			file := textfile.FindPacked(filepath.Join(dir, FileName))
			if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() {
				files = append(files, file)
			}
		}
	}
	if len(files) == 0 {
		return nil, hint.Errorf(findHelp, "folder %s has no %s", path, FileName)
	}
	return files, nil
}

// globbed quotes a path for a pattern.
func globbed(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// Contests lists the families that the file's records were measured against the defaults of, "" for normbench's default.
func (f *File) Contests() (families []string) {
	for _, e := range f.outcomes {
		if e != nil && e.Variant.Family != Stream && !slices.Contains(families, e.BaseOf) {
			families = append(families, e.BaseOf)
		}
	}
	return families
}
