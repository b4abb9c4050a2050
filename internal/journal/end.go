package journal

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
)

const (
	// endIntervals is how many intervals after a segment the end of the chain is written.
	endIntervals = 10
	// heartbeat is the time between two ends while nothing changes.
	heartbeat = 30 * time.Second
)

// end states which segments a chain has. It is authenticated with a key that the bases have,
// so that a restore notices when the newest segments are missing. Its writer replaces it.
type end struct {
	// Count of the ends of the chain, from 1.
	Count int `json:"count"`
	// Sequence, Last and Sum are the number, the last revision and the SHA-256 sum of the
	// last segment; Sequence is 0 before the first one.
	Sequence int    `json:"sequence"`
	Last     int64  `json:"last"`
	Sum      string `json:"sum"`
	// Closed means that the server has stopped in order.
	Closed bool   `json:"closed,omitempty"`
	MAC    string `json:"mac"`
}

// mac returns the authentication of the end in the chain with the ID.
func (e end) mac(chain, key string) string {
	e.MAC = ""
	sum := hmac.New(sha256.New, []byte(key))
	_ = json.NewEncoder(sum).Encode(struct { // it never fails
		Chain string
		End   end
	}{chain, e})
	return hex.EncodeToString(sum.Sum(nil))
}

// newestEnd returns the name of the newest end of a chain, its count and its sequence; an
// empty name without one.
func newestEnd(ctx context.Context, store Store, number int) (name string, count, sequence int, err error) {
	objects, err := store.List(ctx, chainName(number, endsDir)+"/", "")
	for _, object := range objects {
		numbers, err := parseNumbers(strings.TrimSuffix(path.Base(object.Name), ".json"), 2)
		if err == nil {
			name, count, sequence = object.Name, int(numbers[0]), int(numbers[1])
		}
	}
	return name, count, sequence, err
}

// readEnd reads and verifies the newest end of a chain.
func readEnd(ctx context.Context, store Store, chain *Chain, key string) (e end, err error) {
	name, _, _, err := newestEnd(ctx, store, chain.Number)
	if err != nil {
		return e, err
	}
	if name == "" && key == "" { // a former release has written the chain, without ends
		return e, nil
	}
	if name == "" {
		return e, fmt.Errorf("%w: the end of chain %d is missing", ErrDamaged, chain.Number)
	}
	data, err := readAll(ctx, store, name, maxClaim)
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(data, &e); err != nil || !hmac.Equal([]byte(e.MAC), []byte(e.mac(chain.Claim.ID, key))) {
		return e, fmt.Errorf("%w: %s was not written by the server of the chain", ErrDamaged, name)
	}
	return e, nil
}

// missing returns an error if the segments before next do not reach the end.
func (e end) missing(next int) error {
	if e.Sequence < next {
		return nil
	}
	return fmt.Errorf("%w: segments %d to %d are missing: the chain was written until revision %d", ErrDamaged, next,
		e.Sequence, e.Last)
}

// chainEndWriter writes the ends of a chain. It is of the goroutine of ship.
type chainEndWriter struct {
	session *session
	// latest has what was shipped; written is what the newest end says, since at.
	latest, written end
	at              time.Time
	name            string        // of the newest end
	resumed         bool          // what an earlier process has written is known
	first           chan struct{} // closed after the first one
}

// due is the time until the next end.
func (w *chainEndWriter) due() time.Duration {
	if w.at.IsZero() {
		return 0
	}
	wait := heartbeat
	if w.latest.Sequence != w.written.Sequence {
		wait = min(wait, endIntervals*w.session.w.config.Interval)
	}
	return max(0, wait-time.Since(w.at))
}

// write writes an end if it is due, or if the chain is closed.
func (w *chainEndWriter) write(ctx context.Context, closed bool) error {
	s := w.session
	if !closed && w.due() > 0 {
		return nil
	}
	if !w.resumed {
		err := s.verifyTail(ctx)
		if err == nil {
			w.name, w.latest.Count, _, err = newestEnd(ctx, s.w.config.Store, s.state.Number)
		}
		if err != nil {
			return err
		}
		w.resumed = true
	}
	e := w.latest
	e.Count++
	e.Closed = closed
	e.MAC = e.mac(s.state.Claim.ID, s.state.Key)
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("render the end of a chain: %w", err)
	}
	name := chainName(s.state.Number, endsDir, fmt.Sprintf("%010d-%010d.json", e.Count, e.Sequence)) // sorts by count
	err = s.w.create(ctx, name, data)
	if errors.Is(err, ErrExists) { // the answer to an attempt was lost
		if err = s.sameContent(ctx, name, data); errors.Is(err, ErrExists) {
			w.latest.Count++ // more was shipped since
		}
	}
	if err != nil {
		return err
	}
	if w.name != "" && w.name != name {
		_ = s.w.config.Store.Remove(ctx, w.name) // the newest one counts
	}
	if w.at.IsZero() {
		close(w.first)
	}
	w.latest.Count, w.written, w.at, w.name = e.Count, e, time.Now(), name
	return s.superseded(ctx)
}

// silence is how long nothing is written after the server of a chain was killed.
const silence = 5 * heartbeat / 2

// WaitUnused returns when no server writes the newest chain of the store: at once if its
// server has stopped in order, and otherwise after a time in which nothing was written, which
// it announces with say. It returns an error if a server writes meanwhile.
func WaitUnused(ctx context.Context, store Store, say func(format string, args ...any)) error {
	return waitUnused(ctx, store, silence, say)
}

func waitUnused(ctx context.Context, store Store, silence time.Duration, say func(format string, args ...any)) error {
	before, closed, err := newestObject(ctx, store)
	if err != nil || closed {
		return err
	}
	say("the server that has written the journal did not stop in order: waiting until %s that it writes no more",
		time.Now().Add(silence).Format(time.TimeOnly))
	reconcile.Pause(ctx, silence)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	after, _, err := newestObject(ctx, store)
	if err == nil && after != before {
		err = fmt.Errorf("another server writes the journal %s (%s): stop it, or give this server a destination of its own",
			store, after)
	}
	return err
}

// newestObject names what was written last, and reports whether the server has closed the
// chain.
func newestObject(ctx context.Context, store Store) (name string, closed bool, err error) {
	numbers, err := chainNumbers(ctx, store)
	if err != nil || len(numbers) == 0 {
		return "", false, err
	}
	number := numbers[len(numbers)-1]
	name, _, _, err = newestEnd(ctx, store, number)
	if err != nil || name == "" { // the first end precedes all else but the claim
		return chainName(number), false, err
	}
	data, err := readAll(ctx, store, name, maxClaim)
	if isMissing(err) { // it was replaced meanwhile
		return name, false, nil
	}
	var e end
	if err == nil {
		err = json.Unmarshal(data, &e)
	}
	if err != nil {
		return "", false, fmt.Errorf("read %s: %w", name, err)
	}
	return name, e.Closed, nil
}
