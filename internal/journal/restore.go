package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/progress"
)

// Restoration makes the snapshot of a plan. Its methods are called in the order
// Fetch, Replay, and from one goroutine.
type Restoration struct {
	Plan *Plan
	Key  backup.Key
	// Say receives messages for the user, one line each.
	Say func(format string, args ...any)
	// Fetched counts the bytes of bases that were read; it may be nil.
	Fetched *progress.Counter
	// Progress is called for each segment; it may be nil.
	Progress func(done, total int)

	base Base
	// Outcome is complete after Replay.
	Outcome Outcome
}

// Outcome is the state that a restore has made.
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
	// LeftOut has the segments of another server that lie in the chain.
	LeftOut []string
}

// RestoredFile is the file of a restored data directory that names its journal. Its
// server may continue the destination.
const RestoredFile = "restored-from.json"

// Fetch copies the best undamaged base to a file in dir, and returns its path.
func (r *Restoration) Fetch(ctx context.Context, dir string) (string, error) {
	for i, base := range r.Plan.Bases {
		path := filepath.Join(dir, "base"+base.Extension)
		err := r.fetchBase(ctx, base, path)
		if err == nil {
			r.base = base
			return path, nil
		}
		if !errors.Is(err, backup.ErrDamaged) && !isMissing(err) {
			return "", fmt.Errorf("%s: %w", base.Object.Name, err)
		}
		if i == len(r.Plan.Bases)-1 {
			return "", r.withoutBase(ctx, fmt.Errorf("%s: %w", base.Object.Name, err))
		}
		r.Say("the base %s cannot be used, the one before it is: %v", base.Object.Name, err)
		if err := os.Remove(path); err != nil && !isMissing(err) {
			return "", err
		}
	}
	return "", errors.New("the chain has no base")
}

// withoutBase adds to an error what other chains have.
func (r *Restoration) withoutBase(ctx context.Context, err error) error {
	windows, listErr := Windows(ctx, r.Plan.Store)
	if others := restorable(windows, r.Plan.Chain.Number); listErr == nil && others != "" {
		return fmt.Errorf("%w. What can be restored with --revision or --at:%s", err, others)
	}
	return err
}

// fetchBase copies a base and verifies it.
func (r *Restoration) fetchBase(ctx context.Context, base Base, path string) error {
	body, err := r.Plan.Store.Open(ctx, base.Object.Name)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return errors.Join(err, body.Close())
	}
	var to io.Writer = file
	if r.Fetched != nil {
		to = r.Fetched.Writer(file)
	}
	_, err = io.Copy(to, &cancellable{ctx, body})
	if err = errors.Join(err, body.Close()); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = r.verifyBase(file, base)
	}
	return errors.Join(err, file.Close())
}

func (r *Restoration) verifyBase(file io.Reader, base Base) error {
	content, err := r.Key.Decrypt(file)
	if err != nil {
		return err
	}
	m, err := backup.Read(content, nil)
	if err != nil {
		return err
	}
	return checkBase(m, r.Plan, base)
}

// checkBase verifies that the manifest is that of the base of the plan.
func checkBase(m *backup.Manifest, plan *Plan, base Base) error {
	if m.Snapshot == nil || m.Snapshot.Revision > base.Revision {
		return fmt.Errorf("%w: its content does not match its name", backup.ErrDamaged)
	}
	if id := plan.Chain.Claim.ID; m.Chain != id {
		return fmt.Errorf("%w: it is of the chain %q of another server, and this one is %s", backup.ErrDamaged, m.Chain, id)
	}
	plan.endKey = m.ChainKey
	return nil
}

// Replay applies the changes after the base to the snapshot file, and the changed
// files of the identity to the directory content, which has pki/ and encryption/.
// When the newest state was requested, a broken chain is replayed up to the
// break, and Outcome.Broken is set. Otherwise it is an error.
func (r *Restoration) Replay(ctx context.Context, snapshot, content string) error {
	to, err := openReplay(snapshot)
	if err != nil {
		return err
	}
	to.at = r.base.Time
	visit := visitor{
		revision: to.apply,
		lease:    func(l Lease) error { to.leases[l.ID] = l.TTL; return nil },
		file:     func(f File) error { return putFile(content, f) },
	}
	err = r.Plan.read(ctx, r.base, r.Key, visit, r.Progress)
	r.Outcome = Outcome{Chain: r.Plan.Chain, Revision: to.last, Time: to.at, Changes: to.changes, LeftOut: r.Plan.LeftOut}
	if broken := (*BrokenError)(nil); errors.As(err, &broken) {
		r.Outcome.Broken = broken
		if !r.Plan.Target.newest() && !r.reachable(broken) {
			err = fmt.Errorf("%w. What is before it can be restored with --revision %d (%s)", err, to.last, to.at.Local().Format(time.DateTime))
		} else {
			err = nil
		}
	}
	if err != nil {
		return errors.Join(err, to.abandon())
	}
	if r.Plan.beyond != nil && r.Outcome.Broken == nil {
		r.Outcome.Broken = &BrokenError{Problem: r.Plan.beyond, Last: to.last, Time: to.at}
	}
	if err := to.finish(); err != nil {
		return err
	}
	return r.writeRestoredFile(content)
}

// reachable reports whether a broken chain has the complete target.
func (r *Restoration) reachable(broken *BrokenError) bool {
	return r.Plan.Target.Revision != 0 && broken.Last >= r.Plan.Target.Revision
}

// putFile writes a file of the identity below content.
func putFile(content string, f File) error {
	dir, below, _ := strings.Cut(f.Name, "/")
	named := isNamedKeyFile(f.Name)
	if dir != pkiDir && dir != encryptionDir && !named || path.Clean(f.Name) != f.Name || !filepath.IsLocal(filepath.FromSlash(f.Name)) {
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

// writeRestoredFile records in the new content which chain it is from.
func (r *Restoration) writeRestoredFile(content string) error {
	return writeJSON(filepath.Join(content, RestoredFile), restoredMark{Chain: r.Plan.Chain.Claim.ID, Revision: r.Outcome.Revision, Newest: r.Plan.Newest})
}
