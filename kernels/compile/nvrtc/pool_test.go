package nvrtc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"normbench/internal/assert"
)

// TestMain makes this binary also the helpers of the tests.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "compile-helper" {
		if err := ServeHelper(os.Stdin, os.Stdout, os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 3 && os.Args[1] == "fake-helper" {
		fakeHelper(os.Args[2])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fakeHelper misbehaves as its argument says, or as a source's text does.
func fakeHelper(how string) {
	switch how {
	case "mute":
		select {}
	case "dies":
		fmt.Fprintln(os.Stderr, "no such thing")
		os.Exit(3)
	case "garbage":
		fmt.Println("Welcome!")
		select {}
	case "sorry":
		json.NewEncoder(os.Stdout).Encode(map[string]string{"Error": "no library"})
		return
	}
	json.NewEncoder(os.Stdout).Encode(struct{}{})
	serve(os.Stdin, os.Stdout, func(src Source, opt CompileOptions) (*Binary, error) {
		switch src.Text {
		case "die":
			panic("internal compiler error")
		case "hang":
			select {}
		case "garbage":
			fmt.Println("warning: this is no JSON")
		case "nothing":
			fmt.Println("{}")
			select {}
		case "bad":
			return nil, &CompileError{Source: src.Name, Result: "NVRTC_ERROR_COMPILATION",
				Log: "k.cu(1): error: bad\n"}
		case "odd":
			return nil, errors.New("odd options")
		case "slow":
			time.Sleep(100 * time.Millisecond)
		}
		return &Binary{Cubin: []byte("\x7fELF\xff" + src.Text), Log: fmt.Sprint(os.Getpid()),
			Kernels: map[string]EntryReport{"k": {Registers: 7}}}, nil
	})
}

func fakePool(t *testing.T, size int, how string) *Pool {
	p := NewPool(size, 0, os.Args[0], "fake-helper", how)
	t.Cleanup(p.Close)
	return p
}

// goSays is behind what no JSON begins with.
const goSays = " looking for beginning of value"

// Whatever a helper does costs the source that it was at, and no other: testdata/helpers.txt, by the
// source's text.
func TestFaultOfAHelperCostsOneSource(t *testing.T) {
	assert.Lines(t, "testdata/helpers.txt", func(text string) (said string) {
		p := fakePool(t, 1, "")
		if text == "hang" {
			p.timeout = time.Second
		}
		for i := range 2 { // once in a fresh helper, and once in one that has compiled
			_, err := p.Compile(Source{Name: "k.cu", Text: text}, fakeOptions)
			var ce *CompileError
			said = fmt.Sprint(err)
			assert.That(t, err != nil && !strings.Contains(said, "\n") &&
				(text == "odd" || errors.As(err, &ce) && ce.Source == "k.cu"), "%s: %#v", text, err)
			b, err := p.Compile(Source{Name: "k.cu", Text: fmt.Sprint(i)}, fakeOptions)
			assert.Must(t, err == nil && string(b.Cubin) == fmt.Sprintf("\x7fELF\xff%d", i) &&
				b.Kernels["k"].Registers == 7, "the next source: %+v, %v", b, err)
		}
		assert.Equal(t, len(p.idle), 1, "helpers idle")
		return strings.TrimSuffix(said, goSays)
	})
}

// Where no helper starts the error says why, and has a way out: testdata/greetings.txt.
func TestHelperThatDoesNotStartSaysWhy(t *testing.T) {
	assert.Lines(t, "testdata/greetings.txt", func(how string) string {
		p := fakePool(t, 2, how)
		if p.start = time.Second; how == "absent" {
			p.command = []string{"/none"}
		}
		_, err := p.Compile(Source{Name: "k.cu", Text: "text"}, fakeOptions)
		assert.Equal(t, len(p.idle), 0, how, "helpers are left")
		return strings.Replace(assert.Refusal(t, err), goSays, "", 1)
	})
}

// A helper that died while it was idle costs nothing.
func TestHelperThatDiesIdleCostsNothing(t *testing.T) {
	p := fakePool(t, 1, "")
	for range 3 {
		b, err := p.Compile(Source{Text: "text"}, fakeOptions)
		assert.Must(t, err == nil, "%+v, %v", b, err)
		h := <-p.idle
		p.idle <- h
		idle, _ := os.FindProcess(h.PID())
		idle.Kill()
	}
}

// So many helpers as there is work for start, and no more than allowed.
func TestPoolStartsAsManyHelpersAsThereIsWork(t *testing.T) {
	p := fakePool(t, 3, "")
	count := func(at int, text string) int {
		var pids sync.Map
		var group errgroup.Group
		for range at {
			group.Go(func() error {
				b, err := p.Compile(Source{Text: text}, fakeOptions)
				if err == nil {
					pids.Store(b.Log, true)
				}
				return err
			})
		}
		assert.NoError(t, group.Wait())
		return len(maps.Collect(pids.Range))
	}
	assert.That(t, count(1, "text")+count(1, "text") == 2 && len(p.idle) == 1,
		"%d helpers for one source at a time", len(p.idle))
	n := count(9, "slow")
	assert.That(t, n == 3 && len(p.idle) == 3, "%d helpers worked, %d idle, want 3", n, len(p.idle))
	// A comment need not be in UTF-8.
	b, err := p.Compile(Source{Text: "// caf\xe9"}, fakeOptions)
	assert.That(t, err == nil && string(b.Cubin) == "\x7fELF\xff// caf\ufffd", "%+v, %v", b, err)
}

// Close ends what is at work, and helpers that hang.
func TestCloseEndsHelpersThatHang(t *testing.T) {
	p := fakePool(t, 2, "")
	done := make(chan error)
	for range 3 {
		go func() {
			_, err := p.Compile(Source{Text: "hang"}, fakeOptions)
			done <- err
		}()
	}
	for len(p.slots) < 2 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond) // they hang now
	p.Close()
	for range 3 {
		err := <-done
		assert.That(t, errors.Is(err, errPoolClosed), "got %v", err)
	}
}

func TestNumberOfCompilersIsReadOrRefused(t *testing.T) {
	for text, want := range map[string]int{"": runtime.GOMAXPROCS(0), "0": 0, "5": 5, "-1": -1,
		"2000": -1, " 3": -1} {
		t.Setenv(CompilersVariable, text)
		n, err := Compilers()
		assert.That(t, n == max(want, 0) && (err != nil) == (want < 0), "%q is %d, %v", text, n, err)
	}
}

// What helpers compile is what this process would, errors too.
func TestHelpersCompileWhatThisProcessWould(t *testing.T) {
	c := compiler(t)
	p := NewPool(2, 0, os.Args[0], "compile-helper", c.Path())
	defer p.Close()
	cache := NewCache(t.TempDir(), c).UsePool(p)
	opt := CompileOptions{Arch: "sm_90", Defines: []Macro{{"BLOCK", "128"}}}
	want, err := c.Compile(scale, opt)
	assert.NoError(t, err)
	for _, cached := range []bool{false, true} {
		got, err := cache.Compile(scale, opt)
		assert.That(t, err == nil && got.Cached == cached && bytes.Equal(got.Cubin, want.Cubin) &&
			got.Kernels["scale"] == want.Kernels["scale"], "got %+v, %v, want cached %v", got, err,
			cached)
	}
	_, err = c.Compile(scale, CompileOptions{Arch: "sm_90"})
	_, got := cache.Compile(scale, CompileOptions{Arch: "sm_90"})
	assert.That(t, got != nil && got.Error() == err.Error(), "got  %v\nwant %v", got, err)
	assert.That(t, p.greeted.Load() && len(p.idle) == 1, "%d helpers idle", len(p.idle))
}
