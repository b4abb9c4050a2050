package etcd

import (
	"context"
	"fmt"
	"path/filepath"

	"kube-hyper-mini.io/kube-hyper-mini/internal/memory"
	etcdfiles "kube-hyper-mini.io/kube-hyper-mini/internal/upstream/etcd"
)

// ReleasePages removes the pages of the database from the resident memory. They stay in
// the page cache of the system, from which reads map them again. Writes wait for a few
// milliseconds. After ctx has ended, the end of [Member.Run] waits for the rest. Do not
// call it after the end of Run's context.
func (m *Member) ReleasePages(ctx context.Context) error {
	file, err := filepath.EvalSymlinks(DatabaseFile(m.config.Dir))
	if err == nil {
		file, err = filepath.Abs(file)
	}
	if err != nil {
		return fmt.Errorf("release the pages of etcd's database: %w", err)
	}
	done := make(chan error, 1)
	m.releases.Go(func() {
		done <- etcdfiles.WhileMapped(m.etcd.Server.Backend(), func() error { return memory.ReleaseFile(file) })
	})
	select {
	case err := <-done:
		return err
	case <-m.failure.Failed(): // it may hold the lock for ever
		return nil
	case <-ctx.Done():
		return fmt.Errorf("release the pages of etcd's database: %w", context.Cause(ctx))
	}
}
