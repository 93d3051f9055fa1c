package ab

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/sweep/record"
)

// Read reads the file of a live compare.
func Read(path string) (*Experiment, error) {
	const help = "`normbench compare BASE CANDIDATE --live --out DIR` writes compare-RUN.json; " +
		"write tuned:FILE for a tuned table; `normbench lint FILE` reads rules"
	data, err := textfile.Read(path, textfile.Large)
	if errors.Is(err, os.ErrNotExist) {
		return nil, hint.Errorf(record.OperandHelp, "no records at %s", path)
	} else if err != nil {
		return nil, hint.Errorf(cmp.Or(hint.Of(err), help), "live compare %s: %w", path,
			durable.Cause(err))
	}
	if err := durable.Verify(data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	m, err := Parse(data)
	if err != nil {
		return nil, hint.Errorf(cmp.Or(hint.Of(err), help), "%s is no live compare: %w", path, err)
	}
	return m, nil
}

// Write writes the compare to its file, every sample in it, whole or not at all.
func (m *Experiment) Write(p durable.Place) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return p.Write(durable.SealText(append(data, '\n')))
}
