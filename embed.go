// Package normbench holds what is embedded from the top of the repository, because an embed cannot reach
// a parent folder.
package normbench

import "embed"

// ShapesYAML is the text of shapes.yaml, the shape groups that the binary brings along.
//
//go:embed shapes.yaml
var ShapesYAML string

// ModelsYAML is the text of models.yaml, the models that the binary brings along.
//
//go:embed models.yaml
var ModelsYAML string

// Changelog is the text of CHANGELOG.md, whose first heading is the program's version.
//
//go:embed CHANGELOG.md
var Changelog string

// TunedTables has the tuned tables of results/*/tuned.json, whose maps are the program's defaults.
//
//go:embed results/*/tuned.json
var TunedTables embed.FS
