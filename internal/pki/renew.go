package pki

import (
	"context"
	"time"
)

// checkInterval is the time between two checks whether a certificate is due, and between two
// attempts to renew one.
const checkInterval = time.Minute

// Expiry maps each certificate to the end of its validity, and each authority to that of the
// certificate that signs.
func (s *Store) Expiry() (map[string]time.Time, error) {
	list, err := s.List()
	ends := map[string]time.Time{}
	for _, e := range list {
		if _, found := ends[e.Name]; !e.Until.IsZero() && (!found || !e.TrustedOnly) {
			ends[e.Name] = e.Until
		}
	}
	return ends, err
}

// Renew calls [Store.Ensure] every checkInterval, when overlaps end, after changes of
// authorities and after failed changes, until ctx ends. After each round it calls done with
// the result.
func (s *Store) Renew(ctx context.Context, done func(changes []Change, err error)) {
	for {
		changed := s.Changed() // before wait reads the state
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-time.After(s.wait()):
		}
		done(s.Ensure())
	}
}

// wait is the time until the next check: when an overlap ends, or after checkInterval. The end of an
// overlap that is past has failed.
func (s *Store) wait() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := checkInterval
	if journal, err := s.readJournal(); err == nil { // Ensure reports an error
		for _, r := range journal.Rotations {
			if until := r.Until.Sub(s.now()); r.Phase == signing && until > 0 {
				wait = min(wait, until)
			}
		}
	}
	return max(wait, time.Second)
}
