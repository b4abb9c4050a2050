package etcd

import (
	"fmt"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
)

// revisionBump is added to the revision by a restore, so that no client has seen a
// later one. etcd's documentation recommends it for Kubernetes: it is enough for a
// million writes a minute during half a day.
const revisionBump = 1_000_000_000

// RestoreSnapshot makes the member's directory dir, which must not exist, from a
// snapshot file. It checks the snapshot's hash. All revisions up to the new one
// are marked as compacted, so that clients with older watches list again instead of
// missing changes.
func RestoreSnapshot(file, dir string, logger *zap.Logger) error {
	err := snapshot.NewV3(logger).Restore(snapshot.RestoreConfig{
		SnapshotPath:        file,
		Name:                memberName,
		OutputDataDir:       dir,
		PeerURLs:            []string{advertised},
		InitialCluster:      memberName + "=" + advertised,
		InitialClusterToken: "kube-hyper-mini",
		RevisionBump:        revisionBump,
		MarkCompacted:       true,
	})
	if err != nil {
		return fmt.Errorf("restore the snapshot of etcd: %w", err)
	}
	return nil
}
