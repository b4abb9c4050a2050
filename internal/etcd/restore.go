package etcd

import (
	"fmt"
	"time"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	etcdfiles "kube-hyper-mini.io/kube-hyper-mini/internal/upstream/etcd"
)

// minRevisionBump is what a restore adds to the revision if the clock is behind it.
// etcd's documentation recommends it for Kubernetes: it is enough for a million writes
// a minute during half a day.
const minRevisionBump = 1_000_000_000

// revisionBump returns what a restore at the time now adds to the revision of a snapshot.
// The new revision is the time in microseconds, and above that of the journal, whose servers
// may have had another clock. etcd writes less than once a microsecond:
// the new revision is above all that clients have seen, also after earlier restores of the
// same snapshot.
func revisionBump(revision, journaled int64, now time.Time) uint64 {
	if bump := max(now.UnixMicro(), journaled+minRevisionBump) - revision; bump > 0 {
		return uint64(bump)
	}
	return minRevisionBump
}

// RestoreSnapshot makes the member's directory dir, which must not exist, from a
// snapshot file. It checks the snapshot's hash. All revisions up to the new one
// are marked as compacted, so that clients with older watches list again instead of
// missing changes. The new one is above journaled, the last one that is known of other servers.
func RestoreSnapshot(file, dir string, journaled int64, logger *zap.Logger) error {
	manager := snapshot.NewV3(logger)
	status, err := manager.Status(file)
	if err != nil {
		return fmt.Errorf("read the revision of the snapshot of etcd: %w", err)
	}
	err = manager.Restore(snapshot.RestoreConfig{
		SnapshotPath:        file,
		Name:                etcdfiles.MemberName,
		OutputDataDir:       dir,
		PeerURLs:            []string{etcdfiles.Advertised},
		InitialCluster:      etcdfiles.MemberName + "=" + etcdfiles.Advertised,
		InitialClusterToken: "kube-hyper-mini",
		RevisionBump:        revisionBump(status.Revision, journaled, time.Now()),
		MarkCompacted:       true,
	})
	if err != nil {
		return fmt.Errorf("restore the snapshot of etcd: %w", err)
	}
	return nil
}
