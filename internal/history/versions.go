package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"kube-hyper-mini.io/kube-hyper-mini/internal/journal"
)

// The values of [Version].Change.
const (
	// Created: the object did not exist before.
	Created = "created"
	// Changed: the object existed before.
	Changed = "changed"
	// Deleting: the object waits for its finalizers.
	Deleting = "deleting"
	// Deleted: the object does not exist any more.
	Deleted = "deleted"
	// Restored: a restore of the server brought an earlier version back.
	Restored = "restored"
)

// Version is a version of an object.
type Version struct {
	// Chain of the journal that has it.
	Chain    int   `json:"chain"`
	Revision int64 `json:"revision"`
	// Time is when the journal received the change. Before means that the change was
	// made at that time or earlier.
	Time   time.Time `json:"time"`
	Before bool      `json:"before,omitempty"`
	// Change is Created, Changed, Deleting, Deleted or Restored.
	Change string `json:"change"`
	// Manager is the field manager of the change; empty if it is not known.
	Manager string    `json:"manager,omitempty"`
	UID     types.UID `json:"uid,omitempty"`
	// SizeBytes is the size of the value in etcd.
	SizeBytes int `json:"sizeBytes,omitempty"`
	// Problem says why the version cannot be read.
	Problem string `json:"problem,omitempty"`
}

// Versions returns the versions of an object since a time, the oldest first: the newest
// ones if there are more than limit, which is 0 for all. Parts of the journal before since
// are not read. Parts that are damaged are left out with a warning.
func (a *Journal) Versions(ctx context.Context, o Object, since time.Time, limit int) ([]Version, error) {
	spans, problems, err := journal.Spans(ctx, a.reader.Store)
	if err != nil {
		return nil, err
	}
	for _, problem := range problems {
		a.warn("WARNING: %s", problem)
	}
	list := newVersionList(since, limit)
	for _, span := range spans {
		if !since.IsZero() && !span.Ended.IsZero() && span.Ended.Before(since) {
			continue
		}
		list.begin(span)
		err := a.follow(ctx, span, o, list.add, list.based)
		if broken := (*journal.BrokenError)(nil); errors.As(err, &broken) {
			a.warn("WARNING: versions may be missing in chain %d: %v", span.Chain.Number, err)
			continue
		}
		if err != nil {
			return nil, err
		}
	}
	return list.list(), nil
}

// versionList finds the versions in the records. The same version may be in several bases
// and chains.
type versionList struct {
	since time.Time
	limit int
	// newest has all versions, or with a limit up to twice as many.
	newest []Version
	seed   maphash.Seed
	seen   map[seenKey]struct{}

	span      journal.Span
	last      *objectChange // that of the last version; nil if there is none
	lastKey   seenKey
	inBase    *objectChange // the object in the base of the span; nil if it is not there
	inBaseKey seenKey
}

// seenKey identifies a version: a new etcd begins with revision 1 again.
type seenKey struct {
	revision int64
	hash     uint64
}

func newVersionList(since time.Time, limit int) *versionList {
	return &versionList{since: since, limit: limit, seed: maphash.MakeSeed(), seen: map[seenKey]struct{}{}}
}

func (l *versionList) begin(span journal.Span) { l.span, l.inBase, l.inBaseKey = span, nil, seenKey{} }

func (l *versionList) add(r objectChange) error {
	key := seenKey{r.revision, maphash.Bytes(l.seed, r.value)}
	r.value = nil // it is valid during the call only, and part of a whole segment
	if r.stored {
		l.inBase, l.inBaseKey = &r, key
		if r.deleted {
			l.inBase = nil
		}
	}
	if _, seen := l.seen[key]; seen {
		return nil
	}
	l.seen[key] = struct{}{}
	if r.deleted && (l.last == nil || l.last.deleted) {
		return nil // its versions were removed from the journal
	}
	l.append(l.version(r), r, key)
	return nil
}

// based compares the object in the base with the last version.
func (l *versionList) based() error {
	switch {
	case l.inBase == nil && l.last != nil && !l.last.deleted:
		// The deletion is in a part of the journal that is missing or damaged.
		gone := objectChange{revision: l.span.Base.Revision, time: l.span.Base.Time, stored: true, deleted: true}
		l.append(l.version(gone), gone, seenKey{revision: -1})
	case l.inBase != nil && l.lastKey != l.inBaseKey:
		version := l.version(*l.inBase)
		version.Change = Restored
		l.append(version, *l.inBase, l.inBaseKey)
	}
	return nil
}

func (l *versionList) append(version Version, r objectChange, key seenKey) {
	l.last, l.lastKey = &r, key
	switch {
	case version.Time.Before(l.since):
		return
	case l.limit > 0 && len(l.newest) >= 2*l.limit:
		l.newest = slices.Delete(l.newest, 0, len(l.newest)-l.limit)
	}
	l.newest = append(l.newest, version)
}

// list returns the versions, or the newest ones up to the limit.
func (l *versionList) list() []Version {
	if l.limit == 0 {
		return l.newest
	}
	return l.newest[max(0, len(l.newest)-l.limit):]
}

func (l *versionList) version(r objectChange) Version {
	v := Version{Chain: l.span.Chain.Number, Revision: r.revision, Time: r.time, Before: r.stored, Change: Changed,
		SizeBytes: r.size}
	if r.problem != nil {
		v.Problem = r.problem.Error()
	}
	var before *metav1.PartialObjectMetadata
	if l.last != nil {
		before = l.last.metadata
	}
	if r.metadata != nil {
		v.UID, v.Manager = r.metadata.UID, managerOf(before, r.metadata)
	}
	switch {
	case r.deleted:
		v.Change = Deleted
	case r.created:
		v.Change = Created
	case r.metadata != nil && r.metadata.DeletionTimestamp != nil:
		v.Change = Deleting
	}
	return v
}

// managerOf returns the manager of the newest entry that is not in the version before.
func managerOf(before, now *metav1.PartialObjectMetadata) string {
	manager, newest := "", time.Time{}
	for _, entry := range now.ManagedFields {
		if before != nil && slices.ContainsFunc(before.ManagedFields,
			func(old metav1.ManagedFieldsEntry) bool { return sameEntry(old, entry) }) {
			continue
		}
		if entry.Time != nil && !entry.Time.Time.Before(newest) {
			manager, newest = entry.Manager, entry.Time.Time
		}
	}
	return manager
}

func sameEntry(a, b metav1.ManagedFieldsEntry) bool {
	if a.FieldsV1 == nil || b.FieldsV1 == nil || a.FieldsV1.GetRawString() != b.FieldsV1.GetRawString() {
		return false
	}
	return a.Manager == b.Manager && a.Operation == b.Operation && a.Subresource == b.Subresource && a.Time.Equal(b.Time)
}

// At returns the object as it was at a moment, with the version that it had.
func (a *Journal) At(ctx context.Context, o Object, m *Moment) (*unstructured.Unstructured, *Version, error) {
	var found *objectChange
	keys := map[string]bool{}
	restart := func() error { found = nil; return nil }
	err := a.read(ctx, m, restart, a.changesOf(ctx, o, keys, false, func(change objectChange) error {
		change.value = bytes.Clone(change.value)
		found = &change
		return nil
	}))
	if err != nil {
		return nil, nil, err
	}
	if found == nil || found.deleted {
		return nil, nil, fmt.Errorf("%s did not exist at revision %d (%s); its versions: kube-hyper-mini history get", o,
			m.Revision, m.Time.Local().Format(time.DateTime))
	}
	object, err := a.object(ctx, found.key, found.value)
	if err != nil {
		return nil, nil, fmt.Errorf("revision %d of %s: %w", found.revision, o, err)
	}
	return object, &Version{Revision: found.revision, Time: found.time, UID: object.GetUID(),
		SizeBytes: len(found.value)}, nil
}
