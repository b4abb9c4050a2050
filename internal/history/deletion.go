package history

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"kube-hyper-mini.io/kube-hyper-mini/internal/journal"
)

// BeforeDeletion finds the last moment at which an object existed and was not being
// deleted. Its dependents and the content of a namespace existed then: they are
// deleted later. If there is none, it returns the last moment at which the object
// existed.
func (a *Journal) BeforeDeletion(ctx context.Context, o Object) (*Moment, error) {
	spans, problems, err := journal.Spans(ctx, a.reader.Store)
	if err != nil {
		return nil, err
	}
	for _, problem := range problems {
		a.warn("WARNING: what cannot be read is left out: %s", problem)
	}
	var inDeletion *Moment
	for _, span := range slices.Backward(spans) {
		l := lifetime{}
		err := a.follow(ctx, span, o, l.add, func() error { return nil })
		if broken := (*journal.BrokenError)(nil); errors.As(err, &broken) {
			a.warn("WARNING: chain %d: %v", span.Chain.Number, err)
		} else if err != nil {
			return nil, err
		}
		if l.alive != 0 {
			return momentIn(span, l.alive, l.aliveEnd), nil
		}
		if l.dying != 0 && inDeletion == nil {
			inDeletion = momentIn(span, l.dying, l.dyingEnd)
		}
	}
	if inDeletion == nil {
		return nil, fmt.Errorf("the journal %s does not have %s", a.reader.Store, o)
	}
	return inDeletion, nil
}

// momentIn returns the state of a span just before the revision end; if end is 0, at the
// end of the span. last is the last revision of the object before it.
func momentIn(span journal.Span, last, end int64) *Moment {
	target := journal.Target{Revision: span.Until}
	if end != 0 {
		target.Revision = max(last, end-1)
	}
	return &Moment{target: target, spans: []journal.Span{span}}
}

// lifetime has the revisions between which an object was in its last two states.
type lifetime struct {
	alive, aliveEnd int64 // last version that was not being deleted, and the version after it
	dying, dyingEnd int64 // last version that was being deleted, and its removal
}

func (l *lifetime) add(r record) error {
	switch {
	case !r.deleted && (r.metadata == nil || r.metadata.DeletionTimestamp == nil):
		l.alive, l.aliveEnd = r.revision, 0
		return nil
	case !r.deleted:
		l.dying, l.dyingEnd = r.revision, 0
	case l.dying != 0 && l.dyingEnd == 0:
		l.dyingEnd = r.revision
	}
	if l.alive != 0 && l.aliveEnd == 0 {
		l.aliveEnd = r.revision
	}
	return nil
}
