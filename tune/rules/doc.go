// Package rules reads what launch rules are fitted to. data.go turns records into problems with the times of their
// variants. recipe.go has the ways in which a variant may follow the row. near.go finds the variants that were fast on
// similar problems. Package learn fits; package launchrule says what a rule is.
package rules
