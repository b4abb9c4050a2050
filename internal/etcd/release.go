package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"path"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// Releases reads and writes the key in an external etcd that has the newest release
// which has written to it, as version.json has for a data directory.
type Releases struct {
	client clientv3.KV
	key    string
}

// NewReleases returns the Releases of the objects below prefix.
func NewReleases(client clientv3.KV, prefix string) *Releases {
	return &Releases{client: client, key: path.Join("/kube-hyper-mini/release", prefix)}
}

// Check returns an error if a newer release has written the objects, or if the upgrade
// to this release skips a minor version.
func (r *Releases) Check(ctx context.Context, current datadir.Stamp) error {
	found, _, err := r.read(ctx)
	if err != nil || found == nil {
		return err
	}
	if found.NewerThan(current) {
		return fmt.Errorf("the objects in the external etcd were written by kube-hyper-mini %s; this is %s, which "+
			"cannot read them: run the newer release, or restore a backup of that etcd from before the upgrade", found, current)
	}
	if err := current.CheckSkip(*found); err != nil {
		return fmt.Errorf("the objects in the external etcd were written by kube-hyper-mini %s: %w", found, err)
	}
	return nil
}

// Record writes this release to the key, unless the key has a newer one. It uses a
// transaction of the form that kube-apiserver uses: kine supports no others.
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
		return nil, 0, fmt.Errorf("read the release that has written to etcd (%s): %w", r.key, err)
	}
	if len(answer.Kvs) == 0 {
		return nil, 0, nil
	}
	stamp := &datadir.Stamp{}
	if err := json.Unmarshal(answer.Kvs[0].Value, stamp); err != nil || stamp.Format < 1 {
		return nil, 0, fmt.Errorf("the key %s in etcd has no release (%q): delete the key if no newer release uses "+
			"this etcd", r.key, answer.Kvs[0].Value)
	}
	return stamp, answer.Kvs[0].ModRevision, nil
}
