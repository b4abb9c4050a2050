package planes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	clientcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
)

// hasMaps checks which of two config maps, and that a Secret, are in a control plane.
func hasMaps(t *testing.T, client kubernetes.Interface, one, two bool) {
	t.Helper()
	for name, want := range map[string]bool{"one": one, "two": two} {
		if _, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{}); want != (err == nil) || !want && !apierrors.IsNotFound(err) {
			t.Errorf("the config map %s: %v", name, err)
		}
	}
	secret, err := client.CoreV1().Secrets("default").Get(t.Context(), "secret", metav1.GetOptions{})
	if err != nil || string(secret.Data["key"]) != "value" {
		t.Errorf("the Secret has %s: %v", secret.Data["key"], err)
	}
}

// addMap creates a config map, and with the first one a Secret.
func addMap(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap(name), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if name != "one" {
		return
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "secret"}, StringData: map[string]string{"key": "value"}}
	if _, err := client.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// addAnother creates a config map with a name of its own.
func addAnother(t *testing.T, client kubernetes.Interface) *corev1.ConfigMap {
	t.Helper()
	generated := configMap("")
	generated.GenerateName = "another-"
	created, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), generated, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// watchMaps opens a watch until the end of the test.
func watchMaps(t *testing.T, maps clientcorev1.ConfigMapInterface, options metav1.ListOptions) watch.Interface {
	t.Helper()
	opened, err := maps.Watch(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opened.Stop)
	return opened
}

// delete deletes a ControlPlane.
func (h *testHost) delete(t *testing.T, name string) {
	t.Helper()
	if err := h.objects.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// remove deletes a ControlPlane and waits until it is gone.
func (h *testHost) remove(t *testing.T, name string) {
	t.Helper()
	h.delete(t, name)
	h.awaitGone(t, name)
}

// TestArchive: the last backup of a deleted control plane begins another one, and the same one
// when its object comes back. The new ones have authorities of their own.
func TestArchive(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	client := h.create(t, "acme", map[string]any{"deletion": deletionArchive})
	addMap(t, client, "one")
	p := h.known(t, "acme")
	authority, err := os.ReadFile(filepath.Join(p.dir(), "pki", "client-ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	replaced, err := h.objects.Get(t.Context(), "acme", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	replaced.SetFinalizers(nil) // as kubectl replace does with a manifest
	if _, err := h.objects.Update(t.Context(), replaced, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.remove(t, "acme")
	if _, err := os.Stat(p.dir()); err == nil {
		t.Error("the directory stays")
	}
	hasMaps(t, h.create(t, "other", map[string]any{"from": map[string]any{"backup": "acme"}}), true, false)
	back := h.create(t, "acme", map[string]any{"deletion": deletionArchive})
	hasMaps(t, back, true, false)
	if now, err := os.ReadFile(filepath.Join(p.dir(), "pki", "client-ca.crt")); err != nil || string(now) == string(authority) {
		t.Errorf("the authority is the former one: %v", err)
	}
}

// TestArchiveUnused: a copy that was never started is archived.
func TestArchiveUnused(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	addMap(t, h.create(t, "acme", nil), "one")
	h.create(t, "copy", map[string]any{"deletion": deletionArchive, "from": map[string]any{"controlPlane": "acme"}})
	h.remove(t, "copy")
	hasMaps(t, h.create(t, "again", map[string]any{"from": map[string]any{"backup": "copy"}}), true, false)
}

// TestStaleRemoval: the removal of a ControlPlane that has gone spares the next one of its name.
func TestStaleRemoval(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	client := h.create(t, "acme", nil)
	addMap(t, client, "one")
	stale := h.await(t, "acme", func(o *object) bool { return o.Status.Made })
	stale.UID, stale.DeletionTimestamp = "former", &metav1.Time{Time: time.Now()}
	c := &controller{Manager: h.Manager, client: h.objects}
	if err := c.remove(t.Context(), stale); err != nil {
		t.Fatal(err)
	}
	hasMaps(t, client, true, false)
	if o, err := h.objects.Get(t.Context(), "acme", metav1.GetOptions{}); err != nil || len(o.GetFinalizers()) == 0 {
		t.Errorf("the next one has no finalizer: %v", err)
	}
}

// TestInterruptedCopy: a copy whose first start was killed before it had all keys starts.
func TestInterruptedCopy(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	addMap(t, h.create(t, "acme", nil), "one")
	client := h.create(t, "copy", map[string]any{"from": map[string]any{"controlPlane": "acme"}})
	dir := Dir(h.Manager.config.Host.DataDir, "copy")
	if err := os.WriteFile(filepath.Join(dir, config.UsedFile), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	hasMaps(t, client, true, false)
	p := h.known(t, "copy")
	h.sleepNow(t, "copy")
	if err := os.RemoveAll(filepath.Join(p.dir(), "pki")); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("one that has lost its keys answers %v", err)
	}
}

// TestFromJournal: a control plane begins with a moment of another one's journal.
func TestFromJournal(t *testing.T) {
	t.Parallel()
	journals := t.TempDir()
	h := newHost(t, func(c *config.ServerConfiguration) { c.Planes.Journal = journals })
	client := h.create(t, "acme", map[string]any{"journal": map[string]any{"interval": "100ms"}})
	addMap(t, client, "one")
	h.sleepNow(t, "acme")                                       // the journal has it
	moment := time.Now().Truncate(time.Second).Add(time.Second) // spec.from.at has seconds
	time.Sleep(time.Until(moment) + time.Millisecond)
	addMap(t, client, "two")
	h.sleepNow(t, "acme") // which writes the journal to its end
	journal := h.await(t, "acme", func(o *object) bool { return o.Status.Phase == phaseAsleep }).Status.Journal
	if entries, err := os.ReadDir(filepath.Join(journals, journal)); err != nil || len(entries) == 0 || journal == "" {
		t.Fatalf("the journal %q has %d entries: %v", journal, len(entries), err)
	}
	then := map[string]any{"journal": journal, "at": moment.UTC().Format(time.RFC3339)}
	hasMaps(t, h.create(t, "then", map[string]any{"from": then}), true, false)
	hasMaps(t, h.create(t, "now", map[string]any{"from": map[string]any{"journal": journal}}), true, true)
}

// TestChangeInUse: a journal that is added to a control plane in constant use begins; no request fails, and
// its watches go on.
func TestChangeInUse(t *testing.T) {
	t.Parallel()
	journals := t.TempDir()
	h := newHost(t, func(c *config.ServerConfiguration) { c.Planes.Journal = journals })
	client := h.create(t, "acme", nil)
	awaitFirstWrites(t, client)
	maps := client.CoreV1().ConfigMaps("default")
	list, err := maps.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watched := watchMaps(t, maps, metav1.ListOptions{ResourceVersion: list.ResourceVersion, AllowWatchBookmarks: true})
	used, stop := make(chan error, 1), make(chan struct{})
	go func() {
		for {
			if _, err := maps.List(t.Context(), metav1.ListOptions{}); err != nil {
				used <- err
				return
			}
			select {
			case <-stop:
				used <- nil
				return
			default:
			}
		}
	}()
	patch := []byte(`{"spec": {"journal": {"interval": "100ms"}}}`)
	if _, err := h.objects.Patch(t.Context(), "acme", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the journal begins", func() bool {
		found, err := filepath.Glob(filepath.Join(journals, "acme-*", "*"))
		return err == nil && len(found) > 0
	})
	close(stop)
	if err := <-used; err != nil {
		t.Errorf("a request meanwhile: %v", err)
	}
	addMap(t, client, "two")
	for event := range watched.ResultChan() {
		if o, ok := event.Object.(*corev1.ConfigMap); ok && o.Name == "two" {
			return
		}
	}
	t.Error("a watch ended")
}

// TestBackupAsleep: a control plane that has been in use since its last backup gets one backup
// while it sleeps.
func TestBackupAsleep(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	addMap(t, h.create(t, "acme", map[string]any{"backup": map[string]any{"schedule": "@every 1h"}}), "one")
	h.sleepNow(t, "acme")
	p := h.known(t, "acme")
	p.mu.Lock()
	due := p.backupDue
	p.backupDue = time.Now()
	p.mu.Unlock()
	if due.Before(time.Now()) || due.After(time.Now().Add(time.Hour)) {
		t.Fatalf("the backup was due at %s", due)
	}
	eventually(t, "the backup is made", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.backupDue.IsZero() && p.state == asleep
	})
	path, _, err := backup.Latest(BackupDir(h.Manager.config.Host, "acme"), backup.ReasonScheduled)
	if err != nil || path == "" {
		t.Fatalf("the backup %q: %v", path, err)
	}
	if next := p.nextBackup(p.currentSpec().Backup); !next.IsZero() {
		t.Errorf("the next backup, of the same data, is due at %s", next)
	}
	hasMaps(t, h.create(t, "copy", map[string]any{"from": map[string]any{"backup": "acme/" + filepath.Base(path)}}), true, false)
	later := time.Now().Add(time.Minute) // the host was killed
	if err := os.Chtimes(filepath.Join(p.dir(), "etcd", "member", "snap", "db"), later, later); err != nil {
		t.Fatal(err)
	}
	if next := p.nextBackup(p.currentSpec().Backup); next.Before(later) {
		t.Errorf("the next backup, of what was written since, is due at %s", next)
	}
}

// TestObjectQuota: creations beyond the number are refused, and possible after a deletion.
func TestObjectQuota(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	client := h.create(t, "acme", nil)
	addMap(t, client, "one")
	h.sleepNow(t, "acme")
	o := h.await(t, "acme", func(o *object) bool { return o.Status.Phase == phaseAsleep && o.Status.Objects > 0 })
	if !o.Status.Made || o.Status.SizeBytes == 0 {
		t.Errorf("status %+v", o.Status)
	}
	p := h.known(t, "acme")
	limit := func(objects int64) {
		patch := fmt.Appendf(nil, `{"spec":{"quota":{"objects":%d,"bytes":"64Mi"}}}`, objects)
		if _, err := h.objects.Patch(t.Context(), "acme", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the quota is known", func() bool { return p.currentSpec().Quota.Objects == objects })
	}
	limit(1)
	hasMaps(t, client, true, false) // wakes it
	_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("two"), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "spec.quota.objects") {
		t.Errorf("beyond the quota of %d objects: %v", o.Status.Objects, err)
	}
	own := h.configOf("acme")
	own.Impersonate = rest.ImpersonationConfig{UserName: "system:apiserver",
		Groups: []string{"system:masters", "system:serviceaccounts:kube-system"}}
	impersonator := newClient(t, own)
	_, err = impersonator.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("two"), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("in the name of the control plane, beyond the quota: %v", err)
	}
	accounts := client.CoreV1().ServiceAccounts("default")
	former, err := accounts.Get(t.Context(), "default", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := accounts.Delete(t.Context(), "default", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its own controller makes an object", func() bool {
		again, err := accounts.Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil && again.UID != former.UID
	})
	limit(1 << 20)
	addMap(t, client, "two")
}
