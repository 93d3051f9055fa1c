package nvrtc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A helper speaks JSON. It begins with a greeting, then gives one reply to each request. The end
// of its input ends it.

// A request asks a helper to compile. A helper speaks JSON: it begins with a greeting, then gives one
// reply to each request, and ends with its input.
type request struct {
	Source  Source
	Options CompileOptions
}

// A reply has one of the three: a binary, a refusal of the source, or another error.
type reply struct {
	Binary *Binary       `json:",omitempty"`
	Failed *CompileError `json:",omitempty"`
	Error  string        `json:",omitempty"`
}

// ServeHelper is the main function of a helper process: it compiles what it reads from in,
// one source after the other, with the NVRTC of the file at path.
func ServeHelper(in io.Reader, out io.Writer, path string) error {
	yieldToParent()
	c, err := Open(path)
	enc := json.NewEncoder(out)
	if err != nil {
		enc.Encode(map[string]string{"Error": err.Error()}) //nolint:errcheck // the first error is the one to tell
		return err
	}
	if err := enc.Encode(struct{}{}); err != nil {
		return err
	}
	return serve(in, out, c.Compile)
}

// serve answers requests until the input ends.
func serve(in io.Reader, out io.Writer, compile func(Source, CompileOptions) (*Binary, error)) error {
	dec, enc := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var req request
		if err := dec.Decode(&req); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("malformed request: %w", err)
		}
		var r reply
		var err error
		if r.Binary, err = compile(req.Source, req.Options); err != nil && !errors.As(err, &r.Failed) {
			r.Error = err.Error()
		}
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
}
