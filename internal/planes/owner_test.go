package planes

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// isOfAFormer checks that requests to acme get the reason, and that the directory stays as it is
// when its ControlPlane is deleted.
func (h *testHost) isOfAFormer(t *testing.T, owner string) {
	t.Helper()
	reason := "is that of a former ControlPlane acme: move it away, or remove it"
	_, err := h.client(t, "acme").CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), reason) {
		t.Fatalf("it answers %v", err)
	}
	h.await(t, "acme", func(o *object) bool {
		return o.Status.Phase == phaseFailed && strings.Contains(o.Status.Message, reason)
	})
	h.remove(t, "acme")
	if found := h.owner(t); found != owner {
		t.Errorf("the directory of %s is that of %s", owner, found)
	}
}

// owner returns the UID that the directory of acme belongs to.
func (h *testHost) owner(t *testing.T) string {
	t.Helper()
	owner, err := os.ReadFile(Dir(h.Manager.config.Host.DataDir, "acme") + ownerSuffix)
	if err != nil {
		t.Fatal(err)
	}
	return string(owner)
}

func (h *testHost) uid(t *testing.T) types.UID {
	t.Helper()
	o, err := h.objects.Get(t.Context(), "acme", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o.GetUID()
}

// TestFormerDirectory: the creator of a ControlPlane does not get the directory that a former one of
// its name has left, as after a restore of the host.
func TestFormerDirectory(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	archive := map[string]any{"deletion": deletionArchive}
	addMap(t, h.create(t, "acme", nil), "one")
	h.sleepNow(t, "acme")
	former := string(h.uid(t))
	if owner := h.owner(t); owner != former {
		t.Fatalf("the directory of %s is that of %s", former, owner)
	}
	dir := Dir(h.Manager.config.Host.DataDir, "acme")
	kept := dir + "-kept"
	if err := errors.Join(os.Rename(dir, kept), os.Rename(dir+ownerSuffix, kept+ownerSuffix)); err != nil {
		t.Fatal(err)
	}
	h.remove(t, "acme")
	if err := errors.Join(os.Rename(kept, dir), os.Rename(kept+ownerSuffix, dir+ownerSuffix)); err != nil {
		t.Fatal(err)
	}
	h.create(t, "acme", archive)
	h.isOfAFormer(t, former)
	if entries, err := os.ReadDir(BackupDir(h.Manager.config.Host, "acme")); err == nil {
		t.Errorf("there are %d archives of the former one", len(entries))
	}

	h.create(t, "acme", nil)
	h = h.restart(t, func(dataDir string) {
		if err := os.Rename(Dir(dataDir, "acme"), Dir(dataDir, "away")); err != nil {
			t.Fatal(err)
		}
	})
	client := h.client(t, "acme")
	h.await(t, "acme", func(o *object) bool { return o.Status.Phase == phaseAsleep })
	addMap(t, client, "one") // it is not there
	hasMaps(t, client, true, false)
	h.remove(t, "acme")
	if found, err := datadir.Exists(Dir(h.Manager.config.Host.DataDir, "acme") + ownerSuffix); err != nil || found {
		t.Errorf("the UID stays: %v", err)
	}
	addMap(t, h.create(t, "acme", nil), "one")
	if owner := h.owner(t); owner != string(h.uid(t)) {
		t.Errorf("the directory is that of %s", owner)
	}
}

// TestFormerDirectoryAtStart: a restart takes a directory of a former release, and no other one.
func TestFormerDirectoryAtStart(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	addMap(t, h.create(t, "acme", nil), "one")
	dir := Dir(h.Manager.config.Host.DataDir, "acme")
	interrupted := filepath.Join(filepath.Dir(dir), ".acme"+ownerSuffix+".tmp-123")
	h = h.restart(t, func(string) { // a directory of a former release
		if err := errors.Join(os.Remove(dir+ownerSuffix), os.WriteFile(interrupted, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	})
	if found, err := datadir.Exists(interrupted); err != nil || found {
		t.Errorf("what an interrupted write has left stays: %v", err)
	}
	hasMaps(t, h.client(t, "acme"), true, false)
	eventually(t, "it is noted whose it is", func() bool {
		owner, err := os.ReadFile(dir + ownerSuffix)
		return err == nil && string(owner) == string(h.uid(t))
	})
	h = h.restart(t, func(string) {
		if err := os.WriteFile(dir+ownerSuffix, []byte("former"), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	h.isOfAFormer(t, "former")
	if found, err := datadir.Exists(dir + "/etcd/member/snap/db"); err != nil || !found {
		t.Errorf("the data is gone: %v", err)
	}
}
