package journal

import (
	"testing"
	"time"
)

// TestOldestNeeded: the retention counts the time between bases, and a clock that jumps takes
// nothing young from it.
func TestOldestNeeded(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		chains        [][]time.Duration // of the bases, since began
		number, index int
	}{
		"no base":                          {[][]time.Duration{{}}, 0, 0},
		"all within the retention":         {[][]time.Duration{{0, 1 * day, 2 * day, 3 * day}}, 0, 0},
		"the first is older":               {[][]time.Duration{{0, 1 * day, 2 * day, 3 * day, 4 * day, 5 * day, 6 * day, 7 * day}}, 1, 1},
		"the first chain is older":         {[][]time.Duration{{0}, {}, {1 * day, 2 * day, 3 * day, 4 * day, 5 * day, 6 * day, 7 * day}}, 3, 0},
		"400 days ahead for a moment":      {[][]time.Duration{{0}, {20 * time.Second, 400 * day}}, 0, 0},
		"ahead for a moment after 4 days":  {[][]time.Duration{{0, 1 * day, 2 * day, 3 * day, 4 * day, 400 * day}}, 0, 0},
		"ahead in two chains":              {[][]time.Duration{{0, day}, {400 * day}, {day + time.Hour}}, 0, 0},
		"ahead and corrected a year later": {[][]time.Duration{{0}, {400 * day, 401 * day, 402 * day, 403 * day, 404 * day, 405 * day, 406 * day}}, 2, 0},
		"changes once a week":              {[][]time.Duration{{0, 7 * day, 14 * day, 21 * day, 28 * day, 35 * day, 42 * day}}, 1, 0},
	} {
		var chains []*Chain
		for i, bases := range c.chains {
			chain := &Chain{Number: i + 1, Claim: &Claim{}}
			for _, at := range bases {
				chain.Bases = append(chain.Bases, Base{BaseName: BaseName{Time: began.Add(at)}})
			}
			chains = append(chains, chain)
		}
		if number, index := oldestNeeded(chains, 4*day+time.Hour); number != c.number || index != c.index {
			t.Errorf("%s: base %d of chain %d, want base %d of chain %d", name, index, number, c.index, c.number)
		}
	}
}
