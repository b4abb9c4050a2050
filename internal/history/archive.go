package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kube-hyper-mini.io/kube-hyper-mini/internal/archive"
	"kube-hyper-mini.io/kube-hyper-mini/internal/encryption"
)

// Archive reads objects from a continuous archive. Its methods may be called one
// after the other.
type Archive struct {
	reader archive.Reader
	// prefix of all keys of Kubernetes, with a slash at its end.
	prefix string
	say    func(format string, args ...any)

	keys  encryption.Decrypter
	added map[uint64]bool // hashes of the files in keys
	seed  maphash.Seed
}

// New returns what reads objects from an archive. Prefix is that of the keys in etcd,
// "/registry" by default. Say receives warnings for the user, one line each.
func New(reader archive.Reader, prefix string, say func(format string, args ...any)) *Archive {
	return &Archive{
		reader: reader, prefix: "/" + strings.Trim(prefix, "/") + "/", say: say,
		added: map[uint64]bool{}, seed: maphash.MakeSeed(),
	}
}

// addKeys adds the keys in a file of the archive.
func (a *Archive) addKeys(file archive.File) error {
	hash := maphash.Bytes(a.seed, file.Content)
	if file.Removed || a.added[hash] || file.Name != "encryption/config.yaml" && !strings.HasPrefix(file.Name, "config/files/") {
		return nil
	}
	a.added[hash] = true
	if err := a.keys.Add(file.Name, bytes.Clone(file.Content)); err != nil {
		a.say("WARNING: encrypted objects may not be readable: %v", err)
	}
	return nil
}

// metadata decrypts a value and returns the metadata of its object.
func (a *Archive) metadata(ctx context.Context, key string, value []byte) (*metav1.PartialObjectMetadata, error) {
	plain, err := a.keys.Decrypt(ctx, key, value)
	if err != nil {
		return nil, err
	}
	return decodeMetadata(plain)
}

func (a *Archive) object(ctx context.Context, key string, value []byte) (*unstructured.Unstructured, error) {
	plain, err := a.keys.Decrypt(ctx, key, value)
	if err != nil {
		return nil, err
	}
	return decode(plain)
}

// record is a change of the object that is looked for.
type record struct {
	revision int64
	time     time.Time
	// stored says that the change is in a base: it was made at the time or before.
	stored  bool
	deleted bool
	created bool // first write of the key
	key     string
	// value is valid during the call only.
	value []byte
	size  int
	// metadata is nil if the value cannot be read; problem says why.
	metadata *metav1.PartialObjectMetadata
	problem  error
}

// follow passes the changes of an object in a span to visit. Based is called after those in the base.
func (a *Archive) follow(ctx context.Context, span archive.Span, o Object, visit func(record) error, based func() error) error {
	keys := map[string]bool{} // that have had the object
	revision := func(stored bool) func(archive.Revision) error {
		return func(r archive.Revision) error {
			for _, change := range r.Changes {
				key := string(change.Key)
				if !o.mayHave(a.prefix, key) {
					continue
				}
				found := record{revision: r.Number, time: r.Time, stored: stored, deleted: change.Deleted, created: change.Version == 1, key: key, value: change.Value, size: len(change.Value)}
				if !a.isOf(ctx, o, &found, keys) {
					continue
				}
				if err := visit(found); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return a.reader.Span(ctx, span, archive.Visitor{
		File: a.addKeys, Stored: revision(true), Based: based, Changed: revision(false),
	})
}

// isOf reads the metadata of a record and reports whether it is of the object.
func (a *Archive) isOf(ctx context.Context, o Object, r *record, keys map[string]bool) bool {
	inPlace := o.hasPlace(strings.TrimPrefix(r.key, a.prefix))
	if r.deleted {
		return keys[r.key] || inPlace
	}
	r.metadata, r.problem = a.metadata(ctx, r.key, r.value)
	is := inPlace && (r.problem != nil || o.Kind == "")
	if r.problem == nil && o.Kind != "" {
		gvk := r.metadata.GroupVersionKind()
		is = gvk.GroupKind() == o.GroupKind() && r.metadata.Namespace == o.Namespace && r.metadata.Name == o.Name
	}
	if is {
		keys[r.key] = true
	}
	return is
}

// errEnough ends a reading: the rest is not needed.
var errEnough = errors.New("enough was read")

// Moment is a state that an archive has.
type Moment struct {
	// Revision of the last change in it, and Time when that was made, or before.
	Revision int64
	Time     time.Time

	target archive.Target
	spans  []archive.Span // the best one first
}

// Moment finds the state at a time or a revision.
func (a *Archive) Moment(ctx context.Context, target archive.Target) (*Moment, error) {
	spans, err := a.reader.Find(ctx, target)
	if err != nil {
		return nil, err
	}
	return &Moment{target: target, spans: spans}, nil
}

// read passes the changes up to the moment to visit, and sets the moment's revision
// and time. Restart is called before it begins again with another base.
func (a *Archive) read(ctx context.Context, m *Moment, restart func() error, visit func(archive.Revision) error) error {
	limited := func(r archive.Revision) error {
		if !m.target.Includes(r.Number, r.Time) {
			return errEnough
		}
		m.Revision, m.Time = r.Number, r.Time
		return visit(r)
	}
	stored := func(r archive.Revision) error {
		// The base of a deletion may be later than the moment before it.
		if m.target.Revision != 0 && r.Number > m.target.Revision {
			return nil
		}
		m.Revision, m.Time = r.Number, r.Time
		return visit(r)
	}
	var err error
	for _, span := range m.spans {
		if err = restart(); err != nil {
			return err
		}
		based := func() error {
			if m.Revision == 0 { // the base is empty
				m.Revision, m.Time = span.Base.Revision, span.Base.Time
			}
			return nil
		}
		err = a.reader.Span(ctx, span, archive.Visitor{File: a.addKeys, Stored: stored, Based: based, Changed: limited})
		broken := (*archive.BrokenError)(nil)
		switch {
		case errors.Is(err, errEnough):
			return nil
		case !errors.As(err, &broken):
			return err
		case !broken.Base && m.target.Revision != 0 && broken.Last >= m.target.Revision:
			return nil // the damage is behind the moment
		case !broken.Base && m.target == (archive.Target{}):
			a.say("WARNING: the archive goes on, and the rest cannot be read: %v", err)
			return nil
		case !broken.Base:
			return fmt.Errorf("the archive is broken before that moment: %w", err)
		}
		a.say("WARNING: %v", err)
	}
	return err
}
