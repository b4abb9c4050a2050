package endpoints

import (
	"slices"
	"sync"
	"time"
)

const (
	// A target that did not accept a connection is tried last during a pause that
	// doubles with each further failure.
	firstPause = time.Second
	maxPause   = 30 * time.Second
)

// health records the targets that refuse connections, and those that accept them
// but do not complete a TLS handshake, as a process that hangs.
type health struct {
	mu     sync.Mutex
	down   map[string]outage
	silent map[string]bool
	now    func() time.Time
}

type outage struct {
	pause time.Duration
	until time.Time
}

func newHealth() *health {
	return &health{down: map[string]outage{}, silent: map[string]bool{}, now: time.Now}
}

// mark records whether a target has accepted a connection, and reports whether that has
// changed.
func (h *health) mark(target string, err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	before, wasDown := h.down[target]
	if err == nil {
		delete(h.down, target)
		return wasDown
	}
	pause := firstPause
	if wasDown {
		pause = min(2*before.pause, maxPause)
	}
	h.down[target] = outage{pause: pause, until: h.now().Add(pause)}
	return !wasDown
}

// markSilent records whether a target that accepts connections does not speak TLS, and
// reports whether that has changed. A connection alone does not clear it.
func (h *health) markSilent(target string, silent bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	wasSilent := h.silent[target]
	if silent {
		h.silent[target] = true
	} else {
		delete(h.silent, target)
	}
	return wasSilent != silent
}

// forget drops the state of a target that no reference has any more.
func (h *health) forget(target string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.down, target)
	delete(h.silent, target)
}

// order returns the targets in the order in which to try them: healthy ones in turns,
// then those that failed, by the end of their pause.
func (h *health) order(targets []string, turn uint32) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	var up, down []string
	for _, target := range targets {
		if outage, failed := h.down[target]; h.silent[target] || failed && now.Before(outage.until) {
			down = append(down, target)
		} else {
			up = append(up, target)
		}
	}
	slices.SortStableFunc(down, func(a, b string) int { return h.down[a].until.Compare(h.down[b].until) })
	if len(up) > 1 {
		first := int(turn % uint32(len(up)))
		up = append(slices.Clone(up[first:]), up[:first]...)
	}
	return append(up, down...)
}
