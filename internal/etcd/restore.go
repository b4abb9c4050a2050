package etcd

import (
	"fmt"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
)

// revisionBump is what a restore adds to the revision, so that no client can
// have seen a later one. It is what etcd's documentation advises for Kubernetes:
// a million writes a minute for more than half a day.
const revisionBump = 1_000_000_000

// RestoreSnapshot makes the member's directory dir, which must not exist, from a
// snapshot file. It checks the snapshot's hash. All revisions up to the new one
// are marked as compacted, so that watches from before begin with a new list
// instead of missing what happened in between.
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
