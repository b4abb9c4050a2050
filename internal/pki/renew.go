package pki

import (
	"context"
	"maps"
	"slices"
	"time"
)

const (
	// maxWait bounds how long the renewer trusts the clock: a machine that
	// slept, or whose clock was set, is noticed within it.
	maxWait = time.Hour
	// retryWait follows a failed renewal.
	retryWait = time.Minute
)

// Expiry maps each certificate, authorities included, to its end.
func (s *Store) Expiry() (map[string]time.Time, error) {
	ends := map[string]time.Time{}
	names := slices.Collect(maps.Keys(s.authorities))
	for _, l := range s.leaves {
		names = append(names, l.name)
	}
	for _, name := range names {
		crt, err := s.readCert(name)
		if err != nil {
			return nil, err
		}
		if crt != nil {
			ends[name] = crt.NotAfter
		}
	}
	return ends, nil
}

// Renew signs certificates again as they come due, until ctx ends. After each
// round that wrote something or failed it calls done with the result.
func (s *Store) Renew(ctx context.Context, done func(written []string, err error)) {
	timer := time.NewTimer(s.wait())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		written, err := s.Ensure()
		if len(written) > 0 || err != nil {
			done(written, err)
		}
		if err != nil {
			timer.Reset(retryWait)
		} else {
			timer.Reset(s.wait())
		}
	}
}

// wait is the time until the next certificate comes due, at most maxWait.
func (s *Store) wait() time.Duration {
	wait := maxWait
	for _, l := range s.leaves {
		crt, err := s.readCert(l.name)
		if err != nil || crt == nil {
			return retryWait
		}
		until := renewAt(crt).Sub(s.now())
		if key, err := s.readKey(l.authority); until <= 0 && err == nil && key == nil {
			continue // due, and its authority's key is elsewhere: not ours to renew
		}
		wait = min(wait, until)
	}
	return max(wait, time.Second)
}
