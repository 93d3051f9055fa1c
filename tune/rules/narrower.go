package rules

import "normbench/kernels"

// RecipesOf lists the recipes that run v on rows of n elements of so many bytes: as it is, and in
// the ways in which knobs may follow the row.
func RecipesOf(v kernels.Variant, n, bytes int64) []Recipe { return recipesOf(v, n, bytes) }

// CompareRecipes orders recipes, the plainer first.
func CompareRecipes(a, b Recipe) int { return compareRecipes(a, b) }

// Offers says whether a recipe can run on a problem: the family accepts it, and the knobs that follow
// the row have values of its grid.
func Offers(j Judge, p kernels.Problem, r Recipe) bool { return offers(j, p, r) }

// PlanOf is what a variant launches as text, "" where it is refused or not known.
func PlanOf(j Judge, p kernels.Problem, v kernels.Variant) string { return planOf(j, p, v) }
