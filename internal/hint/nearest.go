package hint

import "github.com/xrash/smetrics"

// NearestName guesses which name word was meant to be, "" if none is near: at most a third of its
// letters may differ.
func NearestName(word string, names []string) string {
	best, least := "", len(word)/3+1
	for _, name := range names {
		if d := smetrics.WagnerFischer(word, name, 1, 1, 1); d < least {
			best, least = name, d
		}
	}
	return best
}

// DidYouMean makes a hint that begins with the nearest name, if there is one.
func DidYouMean(word string, names []string, hint string) string {
	if name := NearestName(word, names); name != "" {
		return "did you mean " + name + "? " + hint
	}
	return hint
}
