// Package durable writes files that survive what happens to a machine, and marks
// them with a checksum by which damage is told from content.
package durable

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"normbench/internal/hint"
)

// A Place is a path to write a file at: one that the user named, or one below a folder that the user
// named, by names that come from elsewhere. A file below a folder stays there: a link that leads out is
// an error.
type Place struct {
	Root string // "" where Name is the user's own path
	Name string
	// Unsynced says that the file can be made again: a power cut may take it, a kill does not.
	Unsynced bool
}

// Sibling makes a place in the same folder.
func (p Place) Sibling(name string) Place {
	return Place{Root: p.Root, Name: filepath.Join(filepath.Dir(p.Name), name)}
}

func (p Place) String() string { return filepath.Join(p.Root, p.Name) }

// open opens the folder of a place, and follows the place's links in it. It refuses a folder, a pipe or
// a device in place of a file, as these are never replaced.
func (p Place) open() (root *os.Root, name string, err error) {
	if p.Root == "" {
		// A stat sees through links that have no path, such as /dev/stdout.
		if info, err := os.Stat(p.Name); err == nil && !info.Mode().IsRegular() {
			return nil, "", checkRegular(info)
		}
		if p.Name, err = target(os.Readlink, p.Name); err != nil {
			return nil, "", err
		}
		p.Root, p.Name = filepath.Split(p.Name)
	}
	if root, err = os.OpenRoot(filepath.Clean(p.Root)); err != nil {
		return nil, "", err
	}
	if name, err = target(root.Readlink, p.Name); err == nil {
		if info, e := root.Stat(name); e == nil && !info.Mode().IsRegular() {
			err = checkRegular(info)
		}
	}
	if err != nil {
		root.Close()
	}
	return root, name, err
}

// checkRegular says why a path that is no plain file cannot be written to.
func checkRegular(info fs.FileInfo) error {
	if info.IsDir() {
		return hint.Errorf("name a file in it", "it is a folder")
	}
	return hint.Errorf("name a file: pipes and devices are for standard output",
		"it is a pipe, a device or a socket, and no file")
}

// Check says why no file can be written to a place, nil if one can.
func (p Place) Check() error {
	root, name, err := p.open()
	if err != nil {
		return err
	}
	defer root.Close()
	return tryTemp(root, name)
}

// WriteFrom writes what r reads in place of the file there, and follows a symbolic link to it. Readers
// see the old file or the new one, never half of one. When it returns nil the new one outlives a power
// cut.
func (p Place) WriteFrom(r io.Reader) (err error) {
	root, name, err := p.open()
	if err != nil {
		return err
	}
	defer root.Close()
	temp, f, err := createTemp(root, name)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			root.Remove(temp)
		}
	}()
	if _, err = io.Copy(f, r); err == nil && !p.Unsynced {
		err = f.Sync()
	}
	if err == nil && runtime.GOOS != "windows" {
		err = f.Chmod(0o644)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		at := func(name string) string { return filepath.Join(root.Name(), name) }
		err = notify(root.Rename(temp, name), Operation{Op: "rename", Path: at(temp), To: at(name)})
	}
	if err != nil || p.Unsynced {
		return err
	}
	return SyncDir(filepath.Join(root.Name(), filepath.Dir(name)))
}

// Write writes data in place of the file there, as WriteFrom does. An error names the place and has a
// hint.
func (p Place) Write(data []byte) error {
	if err := p.WriteFrom(bytes.NewReader(data)); err != nil {
		return hint.Errorf(Help(err), "%s: %w", p, Cause(err))
	}
	return nil
}

// createTemp creates a file with a name of its own beside another. It first deletes the files of writers
// that were killed.
func createTemp(root *os.Root, name string) (string, *WatchedFile, error) {
	deleteStale(root, filepath.Dir(name))
	base := filepath.Base(name)
	if len(base) > maxName { // as the file's own name would be
		return "", nil, syscall.ENAMETOOLONG
	}
	const suffix = 26 // bytes of the dot and of .tmp-18446744073709551615
	base = strings.ToValidUTF8(base[:min(len(base), maxName-suffix)], "")
	temp := filepath.Join(filepath.Dir(name), fmt.Sprintf(".%s.tmp-%d", base, rand.Uint64()))
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	path := filepath.Join(root.Name(), temp)
	return temp, &WatchedFile{f, path, 0}, notify(err, Operation{Op: "create", Path: path})
}

// tryTemp says why no file can be created beside another, nil if one can.
func tryTemp(root *os.Root, name string) error {
	temp, f, err := createTemp(root, name)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), notify(root.Remove(temp), Operation{Op: "remove", Path: f.Path}))
}

// maxName is the most bytes of a file's name.
const maxName = 255

// staleAfter is the age from which a temporary file counts as left by a killed writer.
const staleAfter = time.Hour

var (
	tempRE  = regexp.MustCompile(`^\..+\.tmp-[0-9]+$`)
	cleaned sync.Map // folders, as a folder may get many files
)

// deleteStale deletes old temporary files of a folder, once in a process.
func deleteStale(root *os.Root, dir string) {
	if _, done := cleaned.LoadOrStore(filepath.Join(root.Name(), dir), true); done {
		return
	}
	d, err := root.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	entries, _ := d.ReadDir(-1)
	for _, e := range entries {
		if !tempRE.MatchString(e.Name()) {
			continue
		}
		if info, err := root.Lstat(filepath.Join(dir, e.Name())); err == nil &&
			info.Mode().IsRegular() && time.Since(info.ModTime()) > staleAfter {
			root.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// target follows the symbolic links of path, also to a file that is not there yet. Whether that is below
// a root shows when it is opened.
func target(readlink func(string) (string, error), path string) (string, error) {
	for range 40 {
		to, err := readlink(path)
		if err != nil {
			return path, nil // no link
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return "", errors.New("too many levels of symbolic links")
}

// MakeFolder makes a folder below another, which is made too, and tries whether files can be created
// there. The names of new folders outlive a power cut.
func MakeFolder(in, below string) error {
	folders := []string{in}
	for dir := in; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			break
		}
		folders = append(folders, filepath.Dir(dir)) // has a new name
	}
	if err := notify(os.MkdirAll(in, 0o755), Operation{Op: "mkdir", Path: in}); err != nil {
		return err
	}
	root, err := os.OpenRoot(in)
	if err != nil {
		return err
	}
	defer root.Close()
	for dir := filepath.Dir(below); dir != "."; dir = filepath.Dir(dir) {
		folders = append(folders, filepath.Join(in, dir))
	}
	if err := notify(root.MkdirAll(below, 0o755),
		Operation{Op: "mkdir", Path: filepath.Join(in, below)}); err != nil {
		return err
	}
	for _, dir := range folders {
		if err := SyncDir(dir); err != nil {
			return err
		}
	}
	return tryTemp(root, filepath.Join(below, "check"))
}

// Cause returns err without the operations and the paths that it repeats.
func Cause(err error) error {
	for {
		var pe *fs.PathError
		var le *os.LinkError
		switch {
		case errors.As(err, &pe):
			err = pe.Err
		case errors.As(err, &le):
			err = le.Err
		default:
			return err
		}
	}
}

// Help returns the hint for someone who could not write a file because of err.
func Help(err error) string {
	return cmp.Or(KnownHelp(err), "choose a folder that you may write to")
}

// KnownHelp returns the hint for someone who could not open, read or write a file because of an error of
// the system. It is "" for other errors, such as that there is no file or that it is not theirs.
func KnownHelp(err error) string {
	if h := hint.Of(err); h != "" {
		return h
	}
	switch {
	case err == nil:
		return ""
	case errors.Is(err, syscall.EIO):
		return "the disk failed: see the system's log (`dmesg`), and use a folder on another disk"
	case errors.Is(err, syscall.ESTALE):
		return "the file's server has lost it: mount the file system again, or use a folder on a local disk"
	case errors.Is(err, syscall.EFBIG):
		return "a file may not be that large: raise the limit with `ulimit -f`, or use another file system"
	case errors.Is(err, syscall.EPERM):
		return "the file system does not permit it, whoever you are: use a folder on another one"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "the disk is full, or your share of it: make room, or choose another folder"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "too many files are open: raise the limit with `ulimit -n`"
	case CannotLock(err):
		return "the file system cannot lock files, as some network ones: choose a folder on a local disk"
	// os.Root's, which has no name
	case strings.Contains(err.Error(), "escapes from parent"):
		return "a symbolic link there leads out of the folder: delete it, or name the folder that it leads to"
	case errors.Is(err, syscall.ENAMETOOLONG):
		return fmt.Sprintf("choose a shorter name: it may have %d bytes", maxName)
	case errors.Is(err, syscall.EROFS):
		return "the file system is read-only: choose another folder"
	}
	return ""
}

// CannotLock says whether an error of locking is that the file system has no locks, as some network ones.
func CannotLock(err error) bool {
	return errors.Is(err, syscall.ENOLCK) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.ENOTSUP)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The checksum is the last field of an object: CRC-32C of all before its comma.
const (
	sealOpen  = `,"crc":"`
	sealClose = `"}`
	sealLen   = len(sealOpen) + 8 + len(sealClose)
)

// Seal appends the checksum to a compact JSON object with at least one field.
func Seal(object []byte) []byte {
	body := object[:len(object)-1]
	return fmt.Appendf(body, "%s%08x%s", sealOpen, crc32.Checksum(body, castagnoli), sealClose)
}

// CheckSeal looks for a checksum at the end of a compact JSON object. there says whether there is one,
// ok whether it is that of the text before it.
func CheckSeal(object []byte) (there, ok bool) {
	i := len(object) - sealLen
	if i < 0 || !bytes.HasPrefix(object[i:], []byte(sealOpen)) ||
		!bytes.HasSuffix(object, []byte(sealClose)) {
		return false, false
	}
	const digits = "0123456789abcdef"
	sum := crc32.Checksum(object[:i], castagnoli)
	for k, c := range object[i+len(sealOpen) : len(object)-len(sealClose)] {
		if digits[sum>>(28-4*k)&15] != c {
			return true, false
		}
	}
	return true, true
}

// SealText adds to a JSON object the checksum of its compact form, so that the layout, which stays, does
// not count. Text that is no object stays as it is.
func SealText(object []byte) []byte {
	var compact bytes.Buffer
	if json.Compact(&compact, object) != nil || compact.Len() < 3 || compact.Bytes()[0] != '{' {
		return object
	}
	sealed := Seal(compact.Bytes())
	if !bytes.Contains(bytes.TrimSpace(object), []byte("\n")) {
		return append(sealed, '\n')
	}
	crc := sealed[compact.Len():] // behind what was the closing brace: "crc":"0123abcd"}
	body, _ := bytes.CutSuffix(bytes.TrimSpace(object), []byte("}"))
	return fmt.Appendf(nil, "%s,\n  %s\n}\n", bytes.TrimSpace(body),
		bytes.Replace(bytes.TrimSuffix(crc, []byte("}")), []byte(":"), []byte(": "), 1))
}

// RefuseDuplicates refuses a JSON text with a field twice, or with NaN or Infinity, as Python writes
// them. It accepts other text that is not JSON: its reader says more.
func RefuseDuplicates(data []byte) error {
	var at *jsontext.SyntacticError
	err := jsontext.NewDecoder(bytes.NewReader(data)).SkipValue()
	if !errors.As(err, &at) {
		return nil
	}
	place := strings.Trim(fmt.Sprintf("%.200q", at.JSONPointer), `"`) // of one line
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return hint.Errorf("delete one of the two: which of them counts cannot be told",
			"the field %s stands twice", place)
	}
	for _, name := range []string{"NaN", "Infinity"} {
		if bytes.HasPrefix(data[min(int(at.ByteOffset), len(data)):], []byte(name)) {
			return hint.Errorf("JSON has no such number: write one, or leave the entry out", "%s is %s",
				cmp.Or(place, "the text"), name)
		}
	}
	return nil
}

// Verify refuses the text of a JSON object that has a field twice, or whose checksum does not match. It
// accepts an object without a checksum, and text that is not JSON: the reader's own error says more.
func Verify(data []byte) error {
	if err := RefuseDuplicates(data); err != nil {
		return err
	}
	var h struct{ CRC *string }
	if json.Unmarshal(data, &h) != nil || h.CRC == nil {
		return nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		return nil
	}
	if _, ok := CheckSeal(b.Bytes()); !ok {
		return hint.Errorf(`if the change was made by hand and is meant, delete the field "crc"`,
			"the file's checksum does not match: it was changed by hand, or is damaged")
	}
	return nil
}
