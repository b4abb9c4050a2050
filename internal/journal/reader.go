package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/schema"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	etcdfiles "kube-hyper-mini.io/kube-hyper-mini/internal/upstream/etcd"
)

// Span is a part of a chain: a base, and the changes up to the next base.
type Span struct {
	Chain *Chain
	Base  Base
	// Until is the revision of the next base; 0 for the last one of a chain.
	Until int64
	// Ended is a time before which the last change of the span was made: when the
	// next base was made. It is zero for the last base of a chain.
	Ended time.Time
}

// Spans returns the spans of all chains that can be read, in the order of the
// chains. The messages name the chains that cannot.
func Spans(ctx context.Context, store Store) (spans []Span, problems []string, err error) {
	chains, err := Chains(ctx, store)
	if err != nil {
		return nil, nil, err
	}
	if len(chains) == 0 {
		return nil, nil, fmt.Errorf("%s has no journal", store)
	}
	for _, chain := range chains {
		if chain.Claim == nil {
			problems = append(problems, chain.Problem)
			continue
		}
		for i, base := range chain.Bases {
			span := Span{Chain: chain, Base: base}
			if i+1 < len(chain.Bases) {
				span.Until, span.Ended = chain.Bases[i+1].Revision, chain.Bases[i+1].Time
			}
			spans = append(spans, span)
		}
	}
	return spans, problems, nil
}

// Visitor receives what is read, in the order of the revisions. The slices are
// valid during the call only.
type Visitor struct {
	// File receives the files of the base that have keys, and those that have
	// changed later.
	File func(File) error
	// Stored receives the revisions that the base has: the newest one of each key,
	// and those that etcd had not compacted. Their Time is that of the base.
	Stored func(Revision) error
	// Based is called when the base has been read.
	Based func() error
	// Changed receives the revisions after the base.
	Changed func(Revision) error
}

// Reader reads the past from a store. Its methods may be called one after the other.
type Reader struct {
	Store Store
	Key   backup.Key
}

// Span reads a span. A base or segment that is damaged or missing is a
// BrokenError; what is before it has been passed to the visitor. An error of the
// visitor ends the reading and is returned.
func (r *Reader) Span(ctx context.Context, span Span, visitor Visitor) error {
	plan := &Plan{Store: r.Store, Chain: span.Chain}
	if span.Until != 0 {
		changed := visitor.Changed
		visitor.Changed = func(revision Revision) error {
			if revision.Number > span.Until {
				return errReached
			}
			return changed(revision)
		}
	}
	base := span.Base
	if err := r.readBase(ctx, plan, base, visitor); err != nil {
		if errors.Is(err, backup.ErrDamaged) || isMissing(err) {
			return &BrokenError{Problem: fmt.Errorf("%s: %w", base.Object.Name, err), Base: true}
		}
		return fmt.Errorf("%s: %w", base.Object.Name, err)
	}
	if err := visitor.Based(); err != nil {
		return err
	}
	return plan.read(ctx, base, r.Key, visitor)
}

// Find returns the spans with which a state can be read, the best one first. The
// others are for the case that its base is damaged. They do not end with the
// target. leftOut says which changes of the target they do not have; nil if they have all.
func (r *Reader) Find(ctx context.Context, target Target) (spans []Span, leftOut, err error) {
	plan, err := NewPlan(ctx, r.Store, target)
	if err != nil {
		return nil, nil, err
	}
	for _, base := range plan.Bases {
		spans = append(spans, Span{Chain: plan.Chain, Base: base})
	}
	return spans, plan.beyond, nil
}

// IsKeyFile reports whether the file of a journal has keys that encrypt resources: one of
// the server's own, or one that its configuration names.
func IsKeyFile(name string) bool {
	return strings.HasPrefix(name, "encryption/") || isNamedKeyFile(name)
}

// isNamedKeyFile reports whether it is one that the configuration names.
func isNamedKeyFile(name string) bool {
	field, ok := backup.ConfigFileField(name)
	return ok && config.EncryptsObjects(field)
}

// readBase passes the key files and the revisions of a base to the visitor. Meanwhile the
// database is in a temporary directory. Nothing is passed unless the whole base is as it
// was written.
func (r *Reader) readBase(ctx context.Context, plan *Plan, base Base, visitor Visitor) (err error) {
	dir, err := os.MkdirTemp("", "kube-hyper-mini-base-") // mode 0700
	if err != nil {
		return fmt.Errorf("make a directory for the base: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "snapshot.db")
	files, err := r.extract(ctx, plan, base, path)
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := visitor.File(file); err != nil {
			return err
		}
	}
	db, err := bolt.Open(path, 0o400, &bolt.Options{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("%w: open the database: %w", backup.ErrDamaged, err)
	}
	_ = os.Remove(path) // where it is in use, the directory is removed later
	err = db.View(func(tx *bolt.Tx) error {
		keys := tx.Bucket(schema.Key.Name())
		if keys == nil {
			return fmt.Errorf("%w: it has no database of etcd", backup.ErrDamaged)
		}
		return readRevisions(ctx, keys.Cursor(), base, visitor.Stored)
	})
	return errors.Join(err, db.Close())
}

// extract copies the database of a base to a file and returns the key files.
func (r *Reader) extract(ctx context.Context, plan *Plan, base Base, path string) (files []File, err error) {
	_, err = plan.readBase(ctx, base, func(body io.Reader) (*backup.Manifest, error) {
		return r.Key.Read(ctx, body, func(_ *backup.Manifest, f backup.File, from io.Reader) error {
			if f.Name == backup.SnapshotName {
				return copyTo(path, from)
			}
			if !IsKeyFile(f.Name) {
				return nil
			}
			data, err := io.ReadAll(from)
			files = append(files, File{Name: f.Name, Content: data})
			return err
		})
	})
	return files, err
}

func copyTo(path string, from io.Reader) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	_, err = io.Copy(file, from)
	return errors.Join(err, file.Close())
}

// readRevisions passes the revisions of a database to visit.
func readRevisions(ctx context.Context, cursor *bolt.Cursor, base Base, visit func(Revision) error) error {
	current := Revision{Time: base.Time}
	flush := func() error {
		if len(current.Changes) == 0 {
			return nil
		}
		err := visit(current)
		current.Changes = current.Changes[:0]
		return err
	}
	for key, value := cursor.First(); key != nil; key, value = cursor.Next() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		record, err := etcdfiles.ParseRecord(key, value)
		if err != nil {
			return fmt.Errorf("%w: revision %x: %w", backup.ErrDamaged, key, err)
		}
		if record.Raised {
			continue
		}
		change := Change{Deleted: record.Deleted, Record: value}
		if err := change.parse(); err != nil {
			return fmt.Errorf("%w: revision %d: %w", backup.ErrDamaged, record.Revision, err)
		}
		if record.Revision != current.Number {
			if err := flush(); err != nil {
				return err
			}
			current.Number = record.Revision
		}
		current.Changes = append(current.Changes, change)
	}
	return flush()
}
