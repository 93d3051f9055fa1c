// Package normbench holds what is embedded from the top of the repository.
package normbench

import "embed"

// ShapesYAML is the text of shapes.yaml, the shape groups that the binary
// brings along. It lies here because an embed cannot reach a parent folder.
//
//go:embed shapes.yaml
var ShapesYAML string

// Tables are the tuned tables with the maps that the binary brings along.
//
//go:embed results/*/tuned.json
var Tables embed.FS
