package devicetest

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// Steps are the steps of a worker's protocol.
var Steps = []string{"hello", "prefetch", "open", "prepare", "check", "time", "sense", "close"}

// Faults are what a worker may do at a step instead of its duty. An answer beside "ID" is
// that answer, with the request's id in its place; "[N*]" is as many times as were asked for.
var Faults = func() map[string]string {
	faults := map[string]string{}
	for line := range strings.Lines(faultsText) {
		name, answer, _ := strings.Cut(strings.TrimSpace(line), ":")
		faults[name] = strings.TrimSpace(answer)
	}
	faults["two answers"] = faults["empty"] + "\n" + faults["empty"]
	return faults
}()

//go:embed faults.txt
var faultsText string

// Misbehave is a worker: it passes requests on to an honest one, and that one's answers
// back, but for a request whose step is due, where it does the fault.
func Misbehave(in io.Reader, out io.WriteCloser, honest func(in io.Reader, out io.Writer),
	fault string, due func(step string) bool) {
	requests, toHonest := io.Pipe()
	fromHonest, answers := io.Pipe()
	go func() {
		honest(requests, answers)
		answers.Close()
	}()
	defer toHonest.Close()
	lines, back := bufio.NewReader(in), bufio.NewReader(fromHonest)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var req struct {
			ID      int
			Op      string
			Options struct{ Samples int }
		}
		json.Unmarshal(line, &req)
		if due(req.Op) {
			if !misbehave(out, fault, req.ID, req.Options.Samples) {
				return
			}
			continue
		}
		if _, err := toHonest.Write(line); err != nil {
			return
		}
		if line, err = back.ReadBytes('\n'); err != nil {
			return
		}
		if _, err := out.Write(line); err != nil {
			return
		}
	}
}

func misbehave(out io.WriteCloser, fault string, id, samples int) bool {
	text := strings.ReplaceAll(Faults[fault], "ID", strconv.Itoa(id))
	if before, rest, ok := strings.Cut(text, "["); ok && strings.Contains(rest, "*]") {
		one, after, _ := strings.Cut(rest, "*]")
		text = before + "[" + strings.TrimSuffix(strings.Repeat(one+",", max(samples, 1)), ",") +
			"]" + after
	}
	switch fault {
	case "dies":
		os.Exit(3)
	case "hangs":
		time.Sleep(time.Hour)
	case "closes":
		out.Close()
		time.Sleep(time.Hour)
	case "truncated":
		fmt.Fprint(out, text)
		os.Exit(0)
	case "endless line", "endless lines":
		endless := make([]byte, 1<<16)
		if fault == "endless lines" {
			endless = []byte("{}\n")
		}
		for {
			if _, err := out.Write(endless); err != nil {
				return false
			}
		}
	}
	_, err := fmt.Fprintln(out, strings.Replace(text, "LONG", strings.Repeat("x", 1<<20), 1))
	return err == nil
}
