// Package rules reads what launch rules are fitted to: records as problems with the times of their variants
// (data.go), the recipes by which a variant may follow the row (recipe.go), and the variants that were fast on
// problems like one (near.go). Package learn fits; package launchrule says what a rule is.
package rules
