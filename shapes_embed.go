// Package normbench holds what is embedded from the top of the repository.
package normbench

import _ "embed"

// ShapesYAML is the text of shapes.yaml, the shape groups that the binary
// brings along. It lies here because an embed cannot reach a parent folder.
//
//go:embed shapes.yaml
var ShapesYAML string

// ModelsYAML is the text of models.yaml, the models that the binary brings along.
//
//go:embed models.yaml
var ModelsYAML string
