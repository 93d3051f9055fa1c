package main

import (
	"fmt"
	"strings"

	"normbench/report"
)

// newTable makes an empty table. A ">" before a header aligns its column to the
// right.
func newTable(title string, headers ...string) *report.Table {
	t := &report.Table{Title: title}
	for _, h := range headers {
		text, right := strings.CutPrefix(h, ">")
		t.Header = append(t.Header, text)
		align := report.Left
		if right {
			align = report.Right
		}
		t.Align = append(t.Align, align)
	}
	return t
}

// pc is a share in percent.
func pc(f float64) string { return fmt.Sprintf("%.1f", 100*f) }
