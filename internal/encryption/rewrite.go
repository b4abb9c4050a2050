package encryption

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"

	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

const (
	// pageSize is how many objects are read at once. One may have 1.5 MiB.
	pageSize = 64
	// writers is the number of concurrent writes: etcd syncs the disk once for several.
	writers = 16
)

// rewriter writes objects again, directly in etcd, without admission and conversion.
// Watches get a change of the resource version only.
type rewriter struct {
	*Rotation
	config *configuration
	ring   keyring
	newKey string // prefix of the values that it encrypts

	rewritten atomic.Int64 // in this pass
}

// rewriteAll passes over etcd until no object needs the old key. It returns a revision up to
// which none does, and how many objects it has written.
func (r *Rotation) rewriteAll(ctx context.Context, w *rewriter) (revision int64, total int, err error) {
	for first := true; ; first = false {
		if revision, err = w.pass(ctx); err != nil {
			return 0, 0, err
		}
		// The API server may still be writing objects that it encrypted before it loaded
		// the new key: the pass that counts comes later.
		n := int(w.rewritten.Swap(0))
		if total += n; n == 0 && (!first || r.Encrypt == nil) {
			return revision, total, nil
		}
		if reconcile.Pause(ctx, settleDelay); ctx.Err() != nil {
			return 0, 0, fmt.Errorf("rewrite the encrypted objects: %w", context.Cause(ctx))
		}
	}
}

// pass reads all objects once. The revision is that of its first read.
func (w *rewriter) pass(ctx context.Context) (revision int64, err error) {
	from := strings.TrimSuffix(w.Root, "/") + "/"
	end := clientv3.GetPrefixRangeEnd(from)
	for {
		answer, err := w.Store.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageSize))
		if err != nil {
			return 0, fmt.Errorf("read the objects from etcd: %w", err)
		}
		if revision == 0 {
			revision = answer.Header.Revision
		}
		if err := w.page(ctx, answer.Kvs); err != nil {
			return 0, err
		}
		if !answer.More {
			return revision, nil
		}
		from = string(answer.Kvs[len(answer.Kvs)-1].Key) + "\x00"
	}
}

func (w *rewriter) page(ctx context.Context, objects []*mvccpb.KeyValue) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for _, object := range objects {
		if !w.outdated(object) {
			continue
		}
		group.Go(func() error { return w.rewrite(ctx, object) })
	}
	return group.Wait()
}

// outdated reports whether the object must be written again: it needs an old key, or it
// is in plain text and its resource is encrypted.
func (w *rewriter) outdated(object *mvccpb.KeyValue) bool {
	switch prefix := w.ring.prefixOf(object.Value); {
	case prefix != "":
		return prefix != w.newKey
	case store.IsEncrypted(object.Value):
		return false // by a KMS plugin, or with a key that the file does not have
	}
	entry := w.entryOf(string(object.Key))
	return entry != nil && !writesPlain(*entry)
}

// rewrite writes the object as its entry requires, unless it was changed meanwhile: the
// API server has then written it with the new key.
func (w *rewriter) rewrite(ctx context.Context, object *mvccpb.KeyValue) error {
	key := string(object.Key)
	value, err := w.ring.decrypt(ctx, key, object.Value)
	if err != nil {
		return fmt.Errorf("%s cannot be decrypted with %s in %s, which stays for that reason: "+
			"put the right key back from a backup, or delete the object with `etcdctl del`, and rotate again: %w",
			key, describe(store.KeyPrefix(object.Value)), w.File, err)
	}
	if entry := w.entryOf(key); entry == nil || !writesPlain(*entry) {
		if value, err = w.ring.encrypt(ctx, w.newKey, key, value); err != nil {
			return fmt.Errorf("encrypt %s: %w", key, err)
		}
	}
	// kine supports updates in this form only.
	_, err = w.Store.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", object.ModRevision)).
		Then(clientv3.OpPut(key, string(value), clientv3.WithLease(clientv3.LeaseID(object.Lease)))).
		Else(clientv3.OpGet(key)).
		Commit()
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return nil // the object has expired meanwhile
	}
	if err != nil {
		return fmt.Errorf("rewrite %s: %w", key, err)
	}
	w.rewritten.Add(1)
	return nil
}

// entryOf returns the file's entry for the object's resource; nil if there is none, or if
// the key has no resource.
func (w *rewriter) entryOf(key string) *apiserverv1.ResourceConfiguration {
	resource, found := resourceOf(strings.TrimPrefix(key, w.Root))
	if !found {
		return nil
	}
	return w.config.entryFor(resource.String())
}
