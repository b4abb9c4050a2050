package identity

import (
	"context"
	"fmt"
	"maps"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/fleet"
)

// shareRetryDelay is the time between two attempts to share the revoked keys.
const shareRetryDelay = 5 * time.Second

// ShareRevoked refuses the client keys that other servers of the etcd have revoked, and
// adds the keys that this server has revoked to etcd. shared is nil if there is one
// server only. Call it before the server answers requests, and then FollowRevoked.
func (i *Identity) ShareRevoked(ctx context.Context, shared *fleet.RevokedKeys) error {
	if shared == nil {
		return nil
	}
	i.shared.Store(shared)
	_, err := i.shareRevoked(ctx, shared)
	return err
}

// PublishRevoked sends the client keys that this server has revoked to the other servers
// of the etcd. It does nothing if there is one server only.
func (i *Identity) PublishRevoked(ctx context.Context) error {
	shared := i.shared.Load()
	if shared == nil {
		return nil
	}
	if _, err := i.shareRevoked(ctx, shared); err != nil {
		return fmt.Errorf("this server refuses the revoked keys, but publishing them to the other servers of the etcd failed; the server tries again until it succeeds: %w", err)
	}
	return nil
}

// FollowRevoked repeats ShareRevoked after each change in etcd, until ctx ends.
func (i *Identity) FollowRevoked(ctx context.Context) {
	shared := i.shared.Load()
	if shared == nil {
		return
	}
	for {
		revision, err := i.shareRevoked(ctx, shared)
		if err == nil {
			err = shared.Await(ctx, revision)
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			continue
		}
		i.config.Log.Warn("the revoked client keys were not shared with the other servers of the etcd, trying again", "error", i.Explain(err))
		select {
		case <-ctx.Done():
			return
		case <-time.After(shareRetryDelay):
		}
	}
}

// shareRevoked returns the revision of etcd with the keys that it has used.
func (i *Identity) shareRevoked(ctx context.Context, shared *fleet.RevokedKeys) (int64, error) {
	theirs, revision, err := shared.List(ctx)
	if err != nil {
		return 0, err
	}
	changes, err := i.certificates.Revoke(theirs)
	i.LogChanges(changes)
	if err == nil && len(changes) > 0 {
		err = i.Follow()
	}
	if err != nil {
		i.config.Log.Warn("recording the client keys that other servers have revoked failed: this server refuses them only until it ends", "error", i.Explain(err))
	}
	ours, err := i.certificates.RevokedKeys()
	if err != nil {
		return 0, err
	}
	maps.DeleteFunc(ours, func(fingerprint, _ string) bool { _, known := theirs[fingerprint]; return known })
	return revision, shared.Add(ctx, ours)
}
