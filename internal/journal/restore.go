package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
)

// RestoreConfig names the source of a restore, and the data directory that it fills.
type RestoreConfig struct {
	Into backup.RestoreConfig
	// File is a backup; empty for the state Target of the journal in Store.
	File   string
	Store  Store
	Target Target
	// Whole refuses a state that leaves out later changes of its chain, with a BrokenError.
	Whole bool
	Key   backup.Key
	// Above is a revision that the new one exceeds, as those of the journal.
	Above int64
	// Prefix is that of the keys of the API servers.
	Prefix string
	// Say receives messages for the user, one line each.
	Say func(format string, args ...any)
	Log *zap.Logger
}

// Outcome is the state of a journal that a restore has made.
type Outcome struct {
	Chain *Chain
	// Revision of the last change, and Time when the writer saw it. The time of a
	// base is when it was made.
	Revision int64
	Time     time.Time
	// Changes that were replayed on the base.
	Changes int
	// Broken is why the rest of the chain cannot be restored; nil if it is complete.
	Broken *BrokenError
}

// RestoredFile is the file of a restored data directory that names its journal. Its
// server may continue the destination.
const RestoredFile = "restored-from.json"

// Restore replaces the content of a data directory, which no server may use
// (datadir.ErrLocked), by a backup or a state of a journal. It reads and verifies all before
// it moves the previous content to another directory; no file is overwritten or removed.
// When ctx ends before that, the directory stays as it is. outcome is nil for a backup.
func Restore(ctx context.Context, cfg RestoreConfig) (restored *backup.Restored, outcome *Outcome, err error) {
	var plan *Plan
	from, began := cfg.File, time.Now()
	if cfg.Store != nil {
		from = cfg.Store.String()
		if plan, err = cfg.plan(ctx); err != nil {
			return nil, nil, err
		}
	}
	incoming, err := backup.Begin(cfg.Into)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, incoming.End()) }()
	m, base, err := cfg.fetch(ctx, plan, incoming)
	if err == nil && plan != nil {
		outcome, err = cfg.replay(ctx, plan, base, incoming)
	}
	if err == nil {
		err = etcd.RestoreSnapshot(incoming.Snapshot(), incoming.Join("etcd"), cfg.Above, cfg.Log)
	}
	if err == nil && plan != nil {
		m.Snapshot, err = backup.Describe(incoming.Snapshot(), cfg.Prefix)
	}
	if err != nil {
		return nil, outcome, fmt.Errorf("restore %s: %w", from, err)
	}
	if plan != nil {
		cfg.sayOutcome(outcome, m.Objects(), time.Since(began))
	}
	restored, err = incoming.Replace(m)
	return restored, outcome, err
}

// plan finds the state in the journal. The new revision is above all that the journal has.
func (cfg *RestoreConfig) plan(ctx context.Context) (*Plan, error) {
	plan, err := NewPlan(ctx, cfg.Store, cfg.Target)
	if err != nil {
		return nil, err
	}
	last, err := LastRevision(ctx, cfg.Store)
	if err != nil {
		return nil, err
	}
	cfg.Above = max(cfg.Above, last)
	base := plan.Bases[0]
	cfg.Say("chain %d of %s, from its base of %s at revision %d", plan.Chain.Number, plan.Store,
		base.Time.Local().Format(time.DateTime), base.Revision)
	return plan, nil
}

// fetch extracts the backup, or the best undamaged base of the plan.
func (cfg *RestoreConfig) fetch(ctx context.Context, plan *Plan,
	incoming *backup.Incoming) (m *backup.Manifest, base Base, err error) {
	if plan == nil {
		m, err = incoming.ExtractFile(ctx, cfg.File, cfg.Key)
		return m, base, err
	}
	for i, base := range plan.Bases {
		m, err := plan.readBase(ctx, base, func(body io.Reader) (*backup.Manifest, error) {
			return incoming.Extract(ctx, body, cfg.Key)
		})
		if err == nil {
			return m, base, nil
		}
		err = fmt.Errorf("%s: %w", base.Object.Name, err)
		if !errors.Is(err, backup.ErrDamaged) && !isMissing(err) {
			return nil, base, err
		}
		if i == len(plan.Bases)-1 {
			return nil, base, err
		}
		cfg.Say("the base %s cannot be used, using the one before it: %v", base.Object.Name, err)
	}
	return nil, base, errors.New("the chain has no base")
}

// readBase calls read with a base, and verifies that the manifest is that of the base.
func (p *Plan) readBase(ctx context.Context, base Base,
	read func(body io.Reader) (*backup.Manifest, error)) (m *backup.Manifest, err error) {
	body, err := p.Store.Open(ctx, base.Object.Name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	if m, err = read(body); err != nil {
		return nil, err
	}
	if m.Snapshot.Revision > base.Revision {
		return nil, fmt.Errorf("%w: its content does not match its name", backup.ErrDamaged)
	}
	if id := p.Chain.Claim.ID; m.Chain != id {
		return nil, fmt.Errorf("%w: it is of the chain %q of another server, and this one is %s", backup.ErrDamaged,
			m.Chain, id)
	}
	p.endKey = m.ChainKey
	return m, nil
}

// replay applies the changes after the base to the snapshot, and the changed files of the
// identity to the new content. When the newest state was requested, and not the Whole, a broken
// chain is replayed up to the break, and Outcome.Broken is set. Otherwise it is an error.
func (cfg *RestoreConfig) replay(ctx context.Context, plan *Plan, base Base,
	incoming *backup.Incoming) (*Outcome, error) {
	to, err := openReplay(incoming.Snapshot())
	if err != nil {
		return nil, err
	}
	to.at = base.Time
	visit := Visitor{
		Changed: to.apply,
		File:    func(f File) error { return putFile(incoming.Join(), f) },
	}
	err = plan.read(ctx, base, cfg.Key, visit)
	outcome := &Outcome{Chain: plan.Chain, Revision: to.last, Time: to.at, Changes: to.changes}
	if errors.As(err, &outcome.Broken) {
		reached := plan.Target.Revision != 0 && outcome.Broken.Last >= plan.Target.Revision
		if err = nil; cfg.Whole || !plan.Target.newest() && !reached {
			err = fmt.Errorf("%w. What is before it can be restored with --revision %d (%s)", outcome.Broken, to.last,
				to.at.Local().Format(time.DateTime))
		}
	} else if err == nil && plan.beyond != nil {
		outcome.Broken = &BrokenError{Problem: plan.beyond, Last: to.last, Time: to.at}
	}
	if err != nil {
		return outcome, errors.Join(err, to.abandon())
	}
	if err := to.finish(); err != nil {
		return outcome, err
	}
	mark := restoredMark{Chain: plan.Chain.Claim.ID, Revision: outcome.Revision, Newest: plan.Newest}
	return outcome, datadir.WriteJSON(incoming.Join(RestoredFile), mark)
}

// preciseTime is time.DateTime with milliseconds.
const preciseTime = "2006-01-02 15:04:05.000"

// sayOutcome says what a restore is about to put into the data directory.
func (cfg *RestoreConfig) sayOutcome(outcome *Outcome, objects int, took time.Duration) {
	cfg.Say("revision %d of %s with %d objects: %d changes were replayed in %s", outcome.Revision,
		outcome.Time.Local().Format(preciseTime), objects,
		outcome.Changes, took.Round(time.Millisecond))
	target := cfg.Target
	switch {
	case !target.At.IsZero():
		between := ", and the journal has no change between the two"
		if outcome.Broken != nil {
			between = ""
		}
		cfg.Say("that is %s before %s%s", target.At.Sub(outcome.Time).Round(time.Millisecond),
			target.At.Local().Format(preciseTime), between)
	case target.Revision != 0 && outcome.Revision != target.Revision:
		cfg.Say("that is the last one before revision %d", target.Revision)
	case target.Revision != 0:
		cfg.Say("that is the requested revision")
	case outcome.Broken == nil:
		cfg.Say("that is the newest one in the journal")
	}
	if outcome.Broken != nil {
		cfg.Say("WARNING: the journal continues, but the rest cannot be restored: %v", outcome.Broken)
	}
}

// putFile writes a file of the identity below content.
func putFile(content string, f File) error {
	dir, below, _ := strings.Cut(f.Name, "/")
	named := isNamedKeyFile(f.Name)
	if !slices.Contains(backup.IdentityDirs, dir) && !named || path.Clean(f.Name) != f.Name ||
		!filepath.IsLocal(filepath.FromSlash(f.Name)) {
		return fmt.Errorf("%w: it has the file %q, which no journal has", ErrDamaged, f.Name)
	}
	file := filepath.Join(content, filepath.FromSlash(f.Name))
	if named { // the administrator copies it to where it was
		file = filepath.Join(content, backup.RestoredConfig, filepath.FromSlash(below))
	}
	if f.Removed {
		if err := os.Remove(file); err != nil && !isMissing(err) {
			return fmt.Errorf("restore %s: %w", f.Name, err)
		}
		return nil
	}
	mode := os.FileMode(0o600)
	if strings.HasSuffix(f.Name, ".crt") {
		mode = 0o644
	}
	return datadir.WriteFile(file, f.Content, mode)
}

// restoredMark is the content of RestoredFile.
type restoredMark struct {
	// Chain is the ID of the chain that the data is from.
	Chain    string `json:"chain"`
	Revision int64  `json:"revision"`
	// Newest is the ID of the destination's newest chain at that time.
	Newest string `json:"newest,omitempty"`
}
