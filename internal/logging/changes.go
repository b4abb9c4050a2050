package logging

import "sync"

// Changes records the text that was logged last for each key, so that a repeated
// text is logged once. It is not for texts with a number that changes, nor for what is
// logged only when it lasts. The zero value is ready to use. It is safe for concurrent use.
type Changes struct {
	last sync.Map // key -> text
}

// Swap records the text and returns the one before, if there was one.
func (c *Changes) Swap(key, text string) (previous string, known bool) {
	before, known := c.last.Swap(key, text)
	if known {
		previous, _ = before.(string)
	}
	return previous, known
}

// Changed records the text and reports whether it differs from the one before.
func (c *Changes) Changed(key, text string) bool {
	previous, known := c.Swap(key, text)
	return !known || previous != text
}

// Forget makes the next text about the key a change.
func (c *Changes) Forget(key string) { c.last.Delete(key) }
