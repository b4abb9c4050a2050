package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"path"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// Releases are the newest release that has written to an external etcd, as
// version.json is for a data directory.
type Releases struct {
	client clientv3.KV
	key    string
}

// NewReleases keeps the stamp of those objects that are below prefix.
func NewReleases(client clientv3.KV, prefix string) *Releases {
	return &Releases{client: client, key: path.Join("/kube-hyper-mini/release", prefix)}
}

// Check returns an error when the objects may be beyond what this release can
// read, or when this release skips a minor version.
func (r *Releases) Check(ctx context.Context, current datadir.Stamp) error {
	found, _, err := r.read(ctx)
	if err != nil || found == nil {
		return err
	}
	if found.NewerThan(current) {
		return fmt.Errorf("the objects in the external etcd were written by kube-hyper-mini %s; this is %s, which cannot read them: run the newer release, or restore a backup of that etcd from before the upgrade", found, current)
	}
	if err := current.CheckSkip(*found); err != nil {
		return fmt.Errorf("the objects in the external etcd were written by kube-hyper-mini %s: %w", found, err)
	}
	return nil
}

// Record notes that this release writes, unless a newer one has. The operation
// is one of those that kube-apiserver's storage uses, so that it works on what
// stores for Kubernetes, as kine.
func (r *Releases) Record(ctx context.Context, current datadir.Stamp) error {
	data, err := json.Marshal(current)
	if err != nil {
		return fmt.Errorf("render the release: %w", err)
	}
	for {
		found, revision, err := r.read(ctx)
		if err != nil {
			return err
		}
		if found != nil && (*found == current || found.NewerThan(current)) {
			return nil
		}
		answer, err := r.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(r.key), "=", revision)).
			Then(clientv3.OpPut(r.key, string(data))).Else(clientv3.OpGet(r.key)).Commit()
		if err != nil {
			return fmt.Errorf("record the release in etcd (%s): %w", r.key, err)
		}
		if answer.Succeeded {
			return nil
		}
	}
}

// read returns nil and 0 if no release has been recorded.
func (r *Releases) read(ctx context.Context) (*datadir.Stamp, int64, error) {
	answer, err := r.client.Get(ctx, r.key)
	if err != nil {
		return nil, 0, fmt.Errorf("read which release has written to etcd (%s): %w", r.key, err)
	}
	if len(answer.Kvs) == 0 {
		return nil, 0, nil
	}
	stamp := &datadir.Stamp{}
	if err := json.Unmarshal(answer.Kvs[0].Value, stamp); err != nil || stamp.Format < 1 {
		return nil, 0, fmt.Errorf("the key %s in etcd is not a release (%q): delete it if its etcd is used by no newer release", r.key, answer.Kvs[0].Value)
	}
	return stamp, answer.Kvs[0].ModRevision, nil
}
