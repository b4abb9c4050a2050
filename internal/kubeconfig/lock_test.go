package kubeconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/configlock"
)

// TestMergeBesideKubectl: a change of the file that kubectl makes during a merge is kept,
// and so is the merge.
func TestMergeBesideKubectl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, theirs := filepath.Join(t.TempDir(), "config"), api.NewConfig()
		unlock, err := configlock.Lock(path)
		if err != nil {
			t.Fatal(err)
		}
		ours, merged := rendered(t, "https://127.0.0.1:6443"), make(chan error, 1)
		go func() {
			_, err := Merge(t.Context(), ours, path, "mini", false, time.Now())
			merged <- err
		}()
		synctest.Wait() // it waits for the lock
		theirs.Contexts["work"] = &api.Context{Cluster: "work"}
		if err := clientcmd.WriteToFile(*theirs, path); err != nil {
			t.Fatal(err)
		}
		if err := unlock(); err != nil {
			t.Fatal(err)
		}
		if err := <-merged; err != nil {
			t.Fatal(err)
		}
		if cfg, err := clientcmd.LoadFromFile(path); err != nil || cfg.Contexts["work"] == nil || cfg.Contexts["mini"] == nil {
			t.Errorf("the file has %+v, %v", cfg, err)
		}
	})
}

// TestMergesAtOnce: each of several merges into one file is kept.
func TestMergesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 8
		ours, path := rendered(t, "https://127.0.0.1:6443"), filepath.Join(t.TempDir(), "new", "config")
		var merges sync.WaitGroup
		for i := range count {
			merges.Go(func() {
				if _, err := Merge(t.Context(), ours, path, fmt.Sprintf("mini-%d", i), false, time.Now().Add(time.Duration(i)*time.Second)); err != nil {
					t.Error(err)
				}
			})
		}
		merges.Wait()
		cfg, err := clientcmd.LoadFromFile(path)
		if err != nil || len(cfg.Contexts) != count {
			t.Errorf("the file has %d of %d contexts, %v", len(cfg.Contexts), count, err)
		}
		if _, err := os.Lstat(configlock.Path(path)); !os.IsNotExist(err) {
			t.Errorf("the lock was left behind: %v", err)
		}
	})
}

// TestMergeIntoLockedFile: the error about a lock that stays names it and the remedy.
func TestMergeIntoLockedFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "config")
		if _, err := configlock.Lock(path); err != nil {
			t.Fatal(err)
		}
		_, err := Merge(t.Context(), rendered(t, "https://127.0.0.1:6443"), path, "mini", false, time.Now())
		if err == nil || !strings.Contains(err.Error(), "remove "+path+".lock") {
			t.Errorf("the error is %v", err)
		}
		if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
			t.Errorf("there is %v, %v", entries, err)
		}
	})
}
