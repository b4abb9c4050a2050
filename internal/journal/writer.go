package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
)

const (
	// minBackoff and maxBackoff bound the time between two attempts to reach the
	// destination.
	minBackoff = time.Second
	maxBackoff = 30 * time.Second
	// refusedDelay is the time between two checks of a destination that belongs
	// to another server.
	refusedDelay = time.Minute
	// idleObservation is the time between two reads of the revision of an etcd
	// that does not change.
	idleObservation = 5 * time.Second
	// observeLimit bounds a read of the revision for the status. Without an answer, the
	// lag is not known.
	observeLimit = 2 * time.Second
	// A lag above lagIntervals intervals and minLagWarning is a warning.
	lagIntervals  = 10
	minLagWarning = 10 * time.Second
	// stopDrain is how long a stop waits for the last changes of etcd.
	stopDrain = 2 * time.Second
	// stopGrace bounds the time in which a stop ships the last segments.
	stopGrace = 5 * time.Second
)

// Config configures a writer.
type Config struct {
	Store Store
	// DataDir is the server's. The spool is in its directory "journal".
	DataDir string
	// KeyFiles are files outside of DataDir with the keys that encrypt resources, by their
	// names in backups; see [IsKeyFile].
	KeyFiles map[string]string
	// Interval is how long a change waits before its segment is closed.
	Interval time.Duration
	// Retention is how far back a restore must reach.
	Retention time.Duration
	// MaxSpool is how many bytes of segments wait on the local disk at most.
	MaxSpool int64
	// TakeOver is the ID of a writer that this one may replace.
	TakeOver string
	// StopIfSuperseded ends Run with an error when another server continues the journal that
	// this one has written.
	StopIfSuperseded bool
	Encryption       backup.Encryption
	// Version of this release.
	Version string
	// Connect reaches etcd. It is called when the writer runs.
	Connect func() storage.Connection
	// Lead waits until this server leads, which means that it runs the controllers. The returned
	// context ends with ctx, and before another server leads. Lead is nil if no other server can
	// use the etcd; otherwise Identity returns the name under which all of them write.
	Lead     func(ctx context.Context) (leading context.Context, err error)
	Identity func(ctx context.Context) (string, error)
	// WaitReady returns when etcd takes requests.
	WaitReady func(context.Context) error
	// Base makes a base of the chain with the ID and the key at the path.
	Base func(ctx context.Context, chain, key, path string) (*backup.Manifest, error)
	Log  *slog.Logger
}

// Writer writes the changes of a server to a journal. Its methods are safe for concurrent
// use; Run is called once.
type Writer struct {
	config  Config
	metrics writerMetrics
	dir     string
	id      string
	ledger  ledger
	spool   *spool
	// How long a stop waits for the last changes, and then for their segments.
	stopDrain, stopGrace time.Duration
	etcd                 storage.Connection // once it runs

	// Of the goroutine of Run.
	attempt *Claim // that may have been created; nil without one
	former  string // ID with which this server wrote from an etcd of its own

	mu     sync.Mutex
	failed bool // the last attempt
}

// NewWriter returns a writer that does nothing yet.
func NewWriter(config Config) *Writer {
	dir := filepath.Join(config.DataDir, "journal")
	w := &Writer{config: config, metrics: newWriterMetrics(), dir: dir, spool: &spool{dir: filepath.Join(dir, "spool")},
		stopDrain: stopDrain, stopGrace: stopGrace}
	w.ledger.maxLag = max(lagIntervals*config.Interval, minLagWarning)
	w.ledger.account.Destination, w.ledger.began = config.Store.String(), time.Now()
	return w
}

// Account is the state of the journal at this moment. It reads etcd's
// revision. Call it once the writer runs.
func (w *Writer) Account(ctx context.Context) Account {
	if _, err := w.tryReadRevision(ctx); err != nil && ctx.Err() != nil {
		w.ledger.recordUnread(err)
	}
	return w.ledger.read(w.spool.size())
}

// readRevision reads etcd's revision.
func (w *Writer) readRevision(ctx context.Context) (int64, error) {
	at := time.Now()
	response, err := w.etcd.Client.Get(ctx, "\x00", clientv3.WithLimit(1), clientv3.WithKeysOnly())
	if err != nil {
		return 0, fmt.Errorf("read etcd's revision: %w", err)
	}
	w.ledger.recordRevision(at, response.Header.Revision)
	return response.Header.Revision, nil
}

// tryReadRevision reads etcd's revision within observeLimit, and records if etcd does not answer.
func (w *Writer) tryReadRevision(ctx context.Context) (int64, error) {
	asking, cancel := context.WithTimeout(ctx, observeLimit)
	defer cancel()
	current, err := w.readRevision(asking)
	if err != nil && ctx.Err() == nil {
		w.ledger.recordUnread(err)
	}
	return current, err
}

// pollRevision reads etcd's revision until ctx ends: often while it changes, so that the
// lag is known.
func (w *Writer) pollRevision(ctx context.Context) {
	last, lagging := int64(0), false
	for ctx.Err() == nil {
		current, err := w.tryReadRevision(ctx)
		delay := idleObservation
		if err == nil && current != last {
			last, delay = current, w.config.Interval
		}
		a := w.ledger.read(w.spool.size())
		w.metrics.lagSeconds.Set(a.LagSeconds)
		w.metrics.lagRevisions.Set(float64(a.LagRevisions))
		if a.Lagging && !lagging {
			w.config.Log.Warn("the journal lags behind", "destination", w.config.Store, "seconds", int(a.LagSeconds),
				"revisions", a.LagRevisions)
		}
		lagging = a.Lagging
		reconcile.Pause(ctx, delay)
	}
}

// endError ends a chain. The next one states the reason.
type endError struct{ reason string }

// Error implements error.
func (e *endError) Error() string { return e.reason }

// chainEnd returns the reason for which a chain ends.
func chainEnd(format string, args ...any) error {
	return &endError{reason: fmt.Sprintf(format, args...)}
}

// refusedError means that the destination belongs to another server; superseded, that this
// one wrote it before.
type refusedError struct {
	text       string
	superseded bool
}

// Error implements error.
func (e *refusedError) Error() string { return e.text }

// Run writes the journal until ctx ends; see [lifecycle.Part]. It does not fail because
// of the destination, except with StopIfSuperseded.
func (w *Writer) Run(ctx context.Context, ready func()) (err error) {
	w.etcd = w.config.Connect()
	w.ledger.setStandby(w.config.Lead != nil)
	if err := w.renameFormer(); err != nil {
		return err
	}
	if w.id, err = writerID(w.dir); err != nil {
		return err
	}
	ready()
	if err := w.config.WaitReady(ctx); err != nil {
		return nil // the part that runs etcd reports it
	}
	var observer sync.WaitGroup
	observing, cancel := context.WithCancel(ctx)
	observer.Go(func() { w.pollRevision(observing) })
	defer observer.Wait()
	defer cancel()
	if w.config.Lead == nil {
		return w.write(ctx)
	}
	w.former = w.id
	for backoff := minBackoff; ctx.Err() == nil; backoff = min(2*backoff, maxBackoff) {
		leading, err := w.lead(ctx)
		if err != nil {
			w.reportFailure(ctx, err)
			reconcile.Pause(ctx, backoff)
			continue
		}
		backoff = minBackoff
		w.ledger.setStandby(false)
		if err := w.write(leading); err != nil {
			return err
		}
		w.ledger.setStandby(true)
	}
	return nil
}

// renameFormer renames the writer's directory of former releases, whose chain then continues.
func (w *Writer) renameFormer() error {
	former := filepath.Join(w.config.DataDir, "archive")
	if _, err := os.Stat(filepath.Join(former, identityFile)); err != nil { // none, or the user's own
		return nil
	}
	if _, err := os.Lstat(w.dir); !isMissing(err) {
		return err
	}
	return os.Rename(former, w.dir)
}

// lead waits until this server leads. It writes in the name of the etcd, so that the next
// leader may continue.
func (w *Writer) lead(ctx context.Context) (leading context.Context, err error) {
	if w.id, err = w.config.Identity(ctx); err != nil {
		return nil, err
	}
	w.reportSuccess() // etcd answers
	return w.config.Lead(ctx)
}

// write writes the journal until ctx ends, or with StopIfSuperseded until another server does.
func (w *Writer) write(ctx context.Context) error {
	s, reason := w.continueChain(ctx)
	w.attempt = nil
	for backoff := minBackoff; ctx.Err() == nil; {
		var err error
		if s == nil {
			if s, err = w.begin(ctx, reason); err != nil {
				w.reportFailure(ctx, err)
				delay := backoff
				if refused := (*refusedError)(nil); errors.As(err, &refused) {
					if delay = refusedDelay; refused.superseded && w.config.StopIfSuperseded {
						return fmt.Errorf("%w: journal.stopIfSuperseded stops this one", err)
					}
				}
				reconcile.Pause(ctx, delay)
				backoff = min(2*backoff, maxBackoff)
				continue
			}
			backoff = minBackoff
		}
		err = s.run(ctx)
		if ctx.Err() != nil {
			return nil
		}
		reason = err.Error()
		w.reportChainEnd(ctx, err)
		s = nil
	}
	return nil
}

// continueChain returns the chain of the previous process, or why a new one begins.
func (w *Writer) continueChain(ctx context.Context) (s *session, reason string) {
	s, err := w.resume(ctx)
	if s != nil && w.config.Lead != nil {
		if ended := (*endError)(nil); errors.As(w.stillOwner(ctx, s.state), &ended) {
			return nil, ended.reason // another server was the leader meanwhile
		}
	}
	if err != nil {
		w.warn("the journal begins a new chain", err)
		return nil, err.Error()
	}
	if s != nil {
		return s, ""
	}
	var from restoredMark
	if found, err := datadir.ReadJSON(filepath.Join(w.config.DataDir, RestoredFile), &from); err == nil && found {
		return nil, fmt.Sprintf("the server was restored at revision %d of another chain", from.Revision)
	}
	return nil, "the server had no journal here before"
}

// state is the content of chain.json in the journal's directory: the chain that
// this server writes.
type state struct {
	Claim       Claim  `json:"claim"`
	Number      int    `json:"number"`
	Destination string `json:"destination"`
	// Key authenticates the ends of the chain.
	Key string `json:"key"`
	// Based means that the destination has a base of the chain.
	Based bool `json:"based"`
	// Base is when the last one was made, Revision its last one, and Sequence the first
	// segment after it.
	Base     time.Time `json:"base,omitzero"`
	Revision int64     `json:"revision,omitempty"`
	Sequence int       `json:"sequence,omitempty"`
	// Recipients are those of the base; nil if a former release has made it.
	Recipients []string `json:"recipients"`
}

func (w *Writer) stateFile() string { return filepath.Join(w.dir, chainFile) }

// resume continues the chain of the previous process. It returns nil without an error
// if there is none.
func (w *Writer) resume(ctx context.Context) (*session, error) {
	var st state
	found, err := datadir.ReadJSON(w.stateFile(), &st)
	if err != nil || !found {
		return nil, err
	}
	if st.Destination != w.config.Store.String() {
		return nil, chainEnd("the destination was changed from %s", st.Destination)
	}
	if st.Claim.Writer != w.id {
		return nil, chainEnd("the server recorded another etcd before")
	}
	if !st.Based {
		return nil, chainEnd("the server stopped before the base of chain %d was recorded", st.Number)
	}
	if st.Recipients != nil && !slices.Equal(st.Recipients, w.config.Encryption.Recipients) {
		return nil, chainEnd("backup.encryptTo was changed") // no identity would read the base and what follows
	}
	last, err := w.spool.load(st.Claim.ID)
	if err != nil {
		return nil, err
	}
	from := st.Claim.First
	if last != nil {
		from = last.header.Last
	}
	if w.isCompacted(ctx, from) { // before the ledger has the old chain: the lag would be what the restore has added
		return nil, chainEnd("the changes from revision %d on were compacted before they were recorded, as by a restore",
			from)
	}
	return newSession(w, st, last)
}

// isCompacted reports whether etcd says that it does not have the revision any more.
func (w *Writer) isCompacted(ctx context.Context, revision int64) bool {
	asking, cancel := context.WithTimeout(ctx, observeLimit)
	defer cancel()
	_, err := w.etcd.Client.Get(asking, "\x00", clientv3.WithRev(revision), clientv3.WithLimit(1), clientv3.WithKeysOnly())
	return errors.Is(err, rpctypes.ErrCompacted)
}
