package pki

import (
	"context"
	"time"
)

const (
	// maxWait bounds one wait of the renewer, because the machine may sleep or its
	// clock may be set.
	maxWait = time.Hour
	// retryWait follows a failed renewal.
	retryWait = time.Minute
)

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

// Renew calls [Store.Ensure] as certificates come due and overlaps end, after changes of
// authorities and after failed changes, until ctx ends. After each round that changed
// something or failed it calls done with the result.
func (s *Store) Renew(ctx context.Context, done func(changes []Change, err error)) {
	failed := false
	for {
		changed := s.Changed() // before wait reads the state
		delay := retryWait
		if !failed {
			delay = s.wait()
		}
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-changed:
			timer.Stop()
		case <-timer.C:
		}
		changes, err := s.Ensure()
		if failed = err != nil; failed || len(changes) > 0 {
			done(changes, err)
		}
	}
}

// wait is the time until the next certificate comes due or the next overlap
// ends, at most maxWait.
func (s *Store) wait() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := maxWait
	for _, l := range s.leaves {
		crt, err := s.readCert(l.name)
		if err != nil || crt == nil {
			return retryWait
		}
		until := renewAt(crt).Sub(s.now())
		if key, err := readKey(s.Key(l.authority)); until <= 0 && err == nil && key == nil {
			continue // due, but its authority's key is elsewhere
		}
		wait = min(wait, until)
	}
	journal, err := s.readJournal()
	if err != nil {
		return retryWait
	}
	for _, r := range journal.Rotations {
		if r.Phase == signing {
			wait = min(wait, r.Until.Sub(s.now()))
		}
	}
	return max(wait, time.Second)
}
