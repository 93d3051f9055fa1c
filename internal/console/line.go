package console

import (
	"fmt"
	"io"
	"os"
)

// clearCode moves the cursor to the start of its line and clears the rest of it.
const clearCode = "\r\x1b[K"

// line returns the terminal of notes, if a line on it can be drawn again.
func (c *Console) line() (Terminal, bool) {
	t, ok := TerminalOf(c.Err)
	return t, ok && !c.Quiet && os.Getenv("TERM") != "dumb"
}

// drawLine draws a text over the line before, cut to the terminal's width.
func (c *Console) drawLine(t Terminal, text string) {
	runes := []rune("normbench: " + OneLine(text))
	if most := max(t.Columns()-1, 20); len(runes) > most {
		runes = append(runes[:most-3], []rune("...")...)
	}
	c.noted.Lock()
	defer c.noted.Unlock()
	io.WriteString(t.Writer, clearCode) //nolint:errcheck // as of notes
	fmt.Fprint(&PlainWriter{Writer: t.Writer}, string(runes))
	c.drawn = true
}

// clearLine clears a drawn line before something else is printed.
func (c *Console) clearLine() {
	c.noted.Lock()
	defer c.noted.Unlock()
	c.clearDrawn()
}

// clearDrawn is clearLine while noted is held.
func (c *Console) clearDrawn() {
	if t, ok := c.line(); ok && c.drawn {
		io.WriteString(t.Writer, clearCode) //nolint:errcheck // as of notes
	}
	c.drawn = false
}
