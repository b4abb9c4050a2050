package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/encryption"
	"kube-hyper-mini.io/kube-hyper-mini/internal/journal"
)

// Journal reads objects from a journal. Its methods may be called one
// after the other.
type Journal struct {
	reader journal.Reader
	// prefix of the keys of Kubernetes, which ends with a slash.
	prefix string
	warn   func(format string, args ...any)

	keys  encryption.Decrypter
	added map[uint64]bool // hashes of the files in keys
	seed  maphash.Seed
}

// New returns a Journal that uses the reader. Prefix is that of the keys in etcd,
// "/registry" by default. warn receives warnings for the user, one line each.
func New(reader journal.Reader, prefix string, warn func(format string, args ...any)) *Journal {
	return &Journal{
		reader: reader, prefix: "/" + strings.Trim(prefix, "/") + "/", warn: warn,
		added: map[uint64]bool{}, seed: maphash.MakeSeed(),
	}
}

// addKeys adds the encryption keys in a file of the journal.
func (a *Journal) addKeys(file journal.File) error {
	hash := maphash.Bytes(a.seed, file.Content)
	_, named := backup.ConfigFileField(file.Name)
	if file.Removed || a.added[hash] || file.Name != "encryption/config.yaml" && !named {
		return nil
	}
	a.added[hash] = true
	if err := a.keys.Add(file.Name, bytes.Clone(file.Content)); err != nil {
		a.warn("WARNING: encrypted objects may not be readable: %v", err)
	}
	return nil
}

// metadata decrypts a value and returns the metadata of its object.
func (a *Journal) metadata(ctx context.Context, key string, value []byte) (*metav1.PartialObjectMetadata, error) {
	plain, err := a.keys.Decrypt(ctx, key, value)
	if err != nil {
		return nil, err
	}
	return decodeMetadata(plain)
}

func (a *Journal) object(ctx context.Context, key string, value []byte) (*unstructured.Unstructured, error) {
	plain, err := a.keys.Decrypt(ctx, key, value)
	if err != nil {
		return nil, err
	}
	return decode(plain)
}

// objectChange is a change of the requested object.
type objectChange struct {
	revision int64
	time     time.Time
	// stored means that the change is in a base: it was made at that time or before.
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

// follow calls visit for each change of an object in a span, and based when the changes
// in the base have been visited.
func (a *Journal) follow(ctx context.Context, span journal.Span, o Object, visit func(objectChange) error,
	based func() error) error {
	keys := map[string]bool{}
	return a.reader.Span(ctx, span, journal.Visitor{
		File: a.addKeys, Stored: a.changesOf(ctx, o, keys, true, visit), Based: based,
		Changed: a.changesOf(ctx, o, keys, false, visit),
	})
}

// changesOf returns a function that calls visit for each change of an object in a revision.
// stored means that the revision is of a base, and keys has those under which the object was
// stored so far.
func (a *Journal) changesOf(ctx context.Context, o Object, keys map[string]bool, stored bool,
	visit func(objectChange) error) func(journal.Revision) error {
	return func(r journal.Revision) error {
		for _, change := range r.Changes {
			key := string(change.Key)
			if !o.mayHave(a.prefix, key) {
				continue
			}
			found := objectChange{revision: r.Number, time: r.Time, stored: stored, deleted: change.Deleted,
				created: change.Version == 1, key: key, value: change.Value, size: len(change.Value)}
			if !a.belongsTo(ctx, o, &found, keys) {
				continue
			}
			if err := visit(found); err != nil {
				return err
			}
		}
		return nil
	}
}

// belongsTo reads the metadata of a change and reports whether it is of the object. keys
// has those under which the object was stored so far.
func (a *Journal) belongsTo(ctx context.Context, o Object, r *objectChange, keys map[string]bool) bool {
	usual := o.hasUsualKey(strings.TrimPrefix(r.key, a.prefix))
	if r.deleted {
		return keys[r.key] || usual
	}
	r.metadata, r.problem = a.metadata(ctx, r.key, r.value)
	belongs := usual && (r.problem != nil || o.Kind == "")
	if r.problem == nil && o.Kind != "" {
		gvk := r.metadata.GroupVersionKind()
		belongs = gvk.GroupKind() == o.GroupKind() && r.metadata.Namespace == o.Namespace && r.metadata.Name == o.Name
	}
	if belongs {
		keys[r.key] = true
	}
	return belongs
}

// errEnough ends the reading of a span whose rest is not needed.
var errEnough = errors.New("enough was read")

// Moment is a state in a journal.
type Moment struct {
	// Revision is that of the last change in the state, and Time when that change was
	// made, or a later time if it is in a base. Both are set when the state is read.
	Revision int64
	Time     time.Time

	target journal.Target
	spans  []journal.Span // the best one first
}

// Moment finds the state at a time or a revision.
func (a *Journal) Moment(ctx context.Context, target journal.Target) (*Moment, error) {
	spans, leftOut, err := a.reader.Find(ctx, target)
	if err != nil {
		return nil, err
	}
	if leftOut != nil {
		a.warn("WARNING: %v", leftOut)
	}
	return &Moment{target: target, spans: spans}, nil
}

// read calls visit for the changes up to the moment, and sets the moment's revision and
// time. It calls restart before each base that it tries.
func (a *Journal) read(ctx context.Context, m *Moment, restart func() error, visit func(journal.Revision) error) error {
	limited := func(r journal.Revision) error {
		if !m.target.Includes(r.Number, r.Time) {
			return errEnough
		}
		m.Revision, m.Time = r.Number, r.Time
		return visit(r)
	}
	stored := func(r journal.Revision) error {
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
		err = a.reader.Span(ctx, span, journal.Visitor{File: a.addKeys, Stored: stored, Based: based, Changed: limited})
		broken := (*journal.BrokenError)(nil)
		switch {
		case errors.Is(err, errEnough):
			return nil
		case !errors.As(err, &broken):
			return err
		case !broken.Base && m.target.Revision != 0 && broken.Last >= m.target.Revision:
			return nil // the damage is after the moment
		case !broken.Base && m.target == (journal.Target{}):
			a.warn("WARNING: the journal cannot be read to its end: %v", err)
			return nil
		case !broken.Base:
			return fmt.Errorf("the journal is broken before that moment: %w", err)
		}
		a.warn("WARNING: %v", err)
	}
	return err
}

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

func (l *lifetime) add(r objectChange) error {
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
