package journal

import "time"

// maxClockLead is how far the times of a chain may be ahead of the clock, and for how long they
// may be further ahead.
const maxClockLead = time.Hour

// checkClock ends the chain when the clock was far ahead once and has been corrected: all
// changes until then would have that time, and no base would be old enough for the retention.
//
// A clock that is wrong now, as at the boot of a machine that cannot keep it, is corrected
// before maxClockLead has passed, or is before the chain began: a chain with times of the past
// would take the place of this one in a restore. A full spool is shipped first.
func (s *session) checkClock(now time.Time) error {
	wall := now.Round(0) // now has the monotonic clock, too
	ahead := s.latestTime().Sub(wall)
	switch {
	case ahead <= maxClockLead:
		s.aheadSince = time.Time{}
	case s.aheadSince.IsZero():
		s.aheadSince = now
	case now.Sub(s.aheadSince) > maxClockLead && wall.After(s.state.Claim.Created.Round(0)) && s.w.spool.empty():
		return chainEnd("the clock was set back: the times of chain %d are %s ahead of it", s.state.Number,
			ahead.Round(time.Minute))
	}
	return nil
}

// latestTime is the last time in the chain; zero without one.
func (s *session) latestTime() time.Time {
	s.mu.Lock()
	latest := s.since.made
	s.mu.Unlock()
	if at := time.UnixMilli(s.lastChange()); at.After(latest) {
		latest = at
	}
	return latest
}

// lastChange is the time of the last change, in milliseconds since 1970; zero without one.
func (s *session) lastChange() int64 {
	if s.builder.empty() && s.last != nil {
		return s.last.header.LastTime
	}
	return s.builder.header.LastTime
}

// stamp is the time for a revision: times in a chain do not decrease, also when the
// clock is set back.
func (s *session) stamp(now time.Time) time.Time {
	return time.UnixMilli(max(now.UnixMilli(), s.lastChange()))
}
