package memory

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestCacheIsBounded: there is room for some values, the last one is kept, and none is after the
// time without a use.
func TestCacheIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCache[int, string](100, time.Minute)
		for i := range 30 {
			c.Add(i, "value", 30)
			if c.size > 100 || c.size != 30*len(c.known) || c.Get(i) != "value" {
				t.Errorf("%d bytes of %d values", c.size, len(c.known))
			}
		}
		if c.Add(30, "large", 1000); c.Get(30) != "large" || len(c.known) != 1 {
			t.Error("the newest value is not kept")
		}
		time.Sleep(40 * time.Second)
		if c.Get(30) != "large" {
			t.Error("a value is gone before its time")
		}
		time.Sleep(40 * time.Second)
		if c.Get(30) != "large" {
			t.Error("the use of a value does not count")
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait() // for the timer's goroutine
		if len(c.known) != 0 || c.size != 0 {
			t.Errorf("%d values are kept without a use", len(c.known))
		}
	})
}
