package memory

import (
	"sync"
	"time"
)

// Cache keeps values that take longer to make than to keep for a while. It is safe for
// concurrent use.
type Cache[K comparable, V any] struct {
	max  int
	idle time.Duration

	mu    sync.Mutex
	known map[K]V
	size  int         // of the values
	timer *time.Timer // calls Clear
}

// NewCache returns a cache of values of at most max bytes. It drops all values when there is no
// room for another, and idle after the last use; the newest one is kept whatever its size.
func NewCache[K comparable, V any](max int, idle time.Duration) *Cache[K, V] {
	return &Cache[K, V]{max: max, idle: idle, known: map[K]V{}}
}

// Get returns the zero value if the key is not known.
func (c *Cache[K, V]) Get(key K) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Reset(c.idle)
	}
	return c.known[key]
}

// Add keeps a value of that many bytes. The key must not be known.
func (c *Cache[K, V]) Add(key K, value V, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size += size; c.size > c.max {
		c.known, c.size = map[K]V{}, size
	}
	c.known[key] = value
	if c.timer == nil {
		c.timer = time.AfterFunc(c.idle, c.Clear)
	} else {
		c.timer.Reset(c.idle)
	}
}

// Clear drops all values.
func (c *Cache[K, V]) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.size = map[K]V{}, 0
}
