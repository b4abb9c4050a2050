package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/schema"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	etcdfiles "kube-hyper-mini.io/kube-hyper-mini/internal/upstream/etcd"
)

// IsKeyFile reports whether the file of a journal has keys that encrypt resources: one of
// the server's own, or one that its configuration names.
func IsKeyFile(name string) bool {
	return strings.HasPrefix(name, encryptionDir+"/") || isNamedKeyFile(name)
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
	body, err := r.Store.Open(ctx, base.Object.Name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	content, err := r.Key.Decrypt(&cancellable{ctx, body})
	if err != nil {
		return nil, err
	}
	m, err := backup.Read(content, func(_ *backup.Manifest, f backup.File, from io.Reader) error {
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
	if err != nil {
		return nil, err
	}
	return files, checkBase(m, plan, base)
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
