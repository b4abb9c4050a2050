package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"path"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// releaseKey is the key in an external etcd that has the newest release which has written to
// the objects below prefix, as version.json has for a data directory.
func releaseKey(prefix string) string { return path.Join("/kube-hyper-mini/release", prefix) }

// CheckRelease returns an error if a newer release has written the objects below prefix in an
// external etcd, or if the upgrade to this release skips a minor version.
func CheckRelease(ctx context.Context, client clientv3.KV, prefix string, current datadir.Stamp) error {
	found, _, err := readRelease(ctx, client, releaseKey(prefix))
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

// RecordRelease records this release for [CheckRelease], unless a newer one is. It uses a
// transaction of the form that kube-apiserver uses: kine supports no others.
func RecordRelease(ctx context.Context, client clientv3.KV, prefix string, current datadir.Stamp) error {
	key := releaseKey(prefix)
	data, err := json.Marshal(current)
	if err != nil {
		return fmt.Errorf("render the release: %w", err)
	}
	for {
		found, revision, err := readRelease(ctx, client, key)
		if err != nil {
			return err
		}
		if found != nil && (*found == current || found.NewerThan(current)) {
			return nil
		}
		answer, err := client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
			Then(clientv3.OpPut(key, string(data))).Else(clientv3.OpGet(key)).Commit()
		if err != nil {
			return fmt.Errorf("record the release in etcd (%s): %w", key, err)
		}
		if answer.Succeeded {
			return nil
		}
	}
}

// readRelease returns nil and 0 if no release has been recorded.
func readRelease(ctx context.Context, client clientv3.KV, key string) (*datadir.Stamp, int64, error) {
	answer, err := client.Get(ctx, key)
	if err != nil {
		return nil, 0, fmt.Errorf("read the release that has written to etcd (%s): %w", key, err)
	}
	if len(answer.Kvs) == 0 {
		return nil, 0, nil
	}
	stamp := &datadir.Stamp{}
	if err := json.Unmarshal(answer.Kvs[0].Value, stamp); err != nil || stamp.Format < 1 {
		return nil, 0, fmt.Errorf("the key %s in etcd has no release (%q): delete the key if no newer release uses "+
			"this etcd", key, answer.Kvs[0].Value)
	}
	return stamp, answer.Kvs[0].ModRevision, nil
}
