package archive

import (
	"context"
	"fmt"
	"os"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
)

// maxAbstention bounds the time in which a server that cannot write the archive does not
// take part in the election.
const maxAbstention = time.Minute

// resignError ends the term of a server that cannot write while another one waits.
type resignError struct{ error }

// Unwrap returns why it cannot write.
func (e *resignError) Unwrap() error { return e.error }

// archiveElected archives whenever this server is the elected one, until ctx ends.
func (w *Writer) archiveElected(ctx context.Context) {
	w.former = w.id
	backoff, abstention := minBackoff, minBackoff
	for ctx.Err() == nil {
		if err := w.elect(ctx); err != nil {
			w.reportFailure(ctx, err)
			reconcile.Pause(ctx, backoff)
			backoff = min(2*backoff, maxBackoff)
			continue
		}
		backoff = minBackoff
		began := time.Now()
		w.resigned = w.archive(ctx)
		w.ledger.setStandby(true)
		w.term.End()
		switch {
		case ctx.Err() != nil:
		case w.resigned == nil:
			w.config.Log.Warn("this server is not elected to write the archive any more", "destination", w.config.Store)
		default:
			w.config.Log.Warn("this server cannot write the archive and lets another one be elected", "destination", w.config.Store, "error", w.resigned)
			w.ledger.update(func(a *Account) { a.Error = w.resigned.Error() })
			if time.Since(began) > maxAbstention {
				abstention = minBackoff
			}
			reconcile.Pause(ctx, abstention)
			abstention = min(2*abstention, maxAbstention)
		}
	}
}

// shouldResign reports whether this server, which cannot write, should let another one be
// elected.
func (w *Writer) shouldResign(ctx context.Context) bool {
	if w.election == nil || w.lostElection() {
		return false
	}
	asking, cancel := context.WithTimeout(ctx, observeLimit)
	defer cancel()
	contested, err := w.election.Contested(asking)
	return err == nil && contested
}

// elect waits until this server is elected. The elected one writes in the name of the
// etcd, so that the next one may continue.
func (w *Writer) elect(ctx context.Context) (err error) {
	if w.id, err = w.election.Identity(ctx); err != nil {
		return err
	}
	if w.resigned == nil { // otherwise the error stays until this server writes again
		w.ledger.update(func(a *Account) { a.Error = "" }) // etcd answers
		w.mu.Lock()
		w.failed = false
		w.mu.Unlock()
	}
	if w.term, err = w.election.Campaign(ctx, fmt.Sprintf("%s (process %d)", host(), os.Getpid())); err != nil {
		return err
	}
	w.ledger.setStandby(false)
	w.config.Log.Info("this server is elected to write the archive", "destination", w.config.Store)
	return nil
}

// lostElection reports whether another server may be elected.
func (w *Writer) lostElection() bool {
	select {
	case <-w.term.Lost():
		return true
	default:
		return false
	}
}
