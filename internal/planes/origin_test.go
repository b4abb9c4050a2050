package planes

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// TestNotMade: requests to a control plane that cannot be made get the reason, which names what to do,
// if their user may see the ControlPlane; and it is made when its source is.
func TestNotMade(t *testing.T) {
	t.Parallel()
	journals := t.TempDir()
	h := newHost(t, func(c *config.ServerConfiguration) { c.Planes.Journal = journals })
	for _, test := range []struct {
		name string
		spec map[string]any
		want []string
	}{
		{"copy", map[string]any{"from": map[string]any{"controlPlane": "source"}}, []string{"create it", "spec.from cannot change"}},
		{"further", map[string]any{"from": map[string]any{"controlPlane": "copy"}}, []string{"not made"}},
		{"crds", map[string]any{"crds": map[string]any{"controlPlane": "source"}}, []string{"create it", "spec.crds.controlPlane"}},
		{"restored", map[string]any{"from": map[string]any{"backup": "missing"}}, []string{"put it there"}},
		{"then", map[string]any{"from": map[string]any{"journal": "gone-1"}}, []string{"gone-1", "no journal", "spec.from cannot change"}},
	} {
		name := test.name
		client := h.create(t, name, test.spec)
		_, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsServiceUnavailable(err) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		o := h.await(t, name, func(o *object) bool { return o.Status.Phase == phaseFailed })
		if meta.IsStatusConditionTrue(o.Status.Conditions, "Ready") {
			t.Errorf("%s is ready: %+v", name, o.Status)
		}
		for _, want := range test.want {
			if !strings.Contains(err.Error(), want) || !strings.Contains(o.Status.Message, want) {
				t.Errorf("%s answers %v, and has the status %s, without %s", name, err, o.Status.Message, want)
			}
		}
	}
	stranger := h.with(t, "copy", func(*rest.Config) {})
	_, err := stranger.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsUnauthorized(err) || strings.Contains(err.Error(), "source") {
		t.Errorf("who may not see it gets %v", err)
	}
	source := h.create(t, "source", map[string]any{"deletion": deletionArchive})
	h.await(t, "copy", func(o *object) bool { return o.Status.Made })
	if _, err := h.client(t, "copy").CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	addMap(t, source, "one")
	h.remove(t, "source")
	dir := BackupDir(h.Manager.config.Host, "")
	if err := os.Rename(filepath.Join(dir, "source"), filepath.Join(dir, "missing")); err != nil {
		t.Fatal(err)
	}
	o := h.await(t, "restored", func(o *object) bool { return o.Status.Made })
	if o.Status.Message != "" || !meta.IsStatusConditionTrue(o.Status.Conditions, "Ready") {
		t.Errorf("status %+v", o.Status)
	}
	hasMaps(t, h.client(t, "restored"), true, false)
}

// TestLifetimeOfNotMade: a ControlPlane that could not be made in its lifetime is deleted.
func TestLifetimeOfNotMade(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	if err := h.tryCreate(t.Context(), "acme", map[string]any{"lifetime": "1s", "from": map[string]any{"backup": "missing"}}); err != nil {
		t.Fatal(err)
	}
	h.awaitGone(t, "acme")
}

// TestOriginOfEachOther: the reasons of two control planes that wait for one another do not grow.
func TestOriginOfEachOther(t *testing.T) {
	t.Parallel()
	host := config.Default()
	host.DataDir = t.TempDir()
	c := &controller{Manager: New(Config{Host: host})}
	c.running = t.Context()
	reasons := map[string]string{}
	for range 5 {
		for name, other := range map[string]string{"one": "two", "two": "one"} {
			o := &object{Spec: Spec{From: From{ControlPlane: other}}}
			o.Name = name
			c.fail(name, c.fill(t.Context(), o))
			_, err := c.plane(name)
			if err == nil {
				t.Fatal("it is made")
			}
			reasons[name] = err.Error()
		}
	}
	for name, other := range map[string]string{"one": "two", "two": "one"} {
		if want := "it is not made yet: copy the control plane " + other + ": it is not made yet: kubectl get controlplane " +
			other + " -o wide says why"; reasons[name] != want {
			t.Errorf("%s is not available as %s", name, reasons[name])
		}
	}
}

// TestBackupBelow: a directory stands for the newest backup in it by name, and one without such says
// so.
func TestBackupBelow(t *testing.T) {
	dir := t.TempDir()
	add := func(name string) {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	add("acme/mine.tar.gz")
	add("beta/manual-20260101T030000Z.tar.gz")
	add("beta/scheduled-20260102T030000Z.tar.gz.age")
	for name, want := range map[string]string{
		"acme/mine.tar.gz": "acme/mine.tar.gz", "beta": "beta/scheduled-20260102T030000Z.tar.gz.age",
	} {
		if file, err := backupBelow(dir, name); err != nil || file != filepath.Join(dir, want) {
			t.Errorf("%s is %s: %v", name, file, err)
		}
	}
	for name, wants := range map[string][]string{
		"acme": {"has no file", "manual, ", "archive, ", "acme/FILE"}, "gone": {"put it there"}, "acme/gone": {"put it there"},
	} {
		_, err := backupBelow(dir, name)
		for _, want := range wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, without %s", name, err, want)
			}
		}
	}
}

// TestNotMadeAfterRestart: a new process knows the reason of the former one until it has tried again.
func TestNotMadeAfterRestart(t *testing.T) {
	t.Parallel()
	host := config.Default()
	host.DataDir = t.TempDir()
	o := newObject("acme", map[string]any{"from": map[string]any{"controlPlane": "source"}})
	o.Object["status"] = map[string]any{"phase": phaseFailed, "message": "no source"}
	shrunk, err := shrink(o)
	if err != nil {
		t.Fatal(err)
	}
	c := &controller{Manager: New(Config{Host: host}), cached: cache.NewStore(cache.MetaNamespaceKeyFunc)}
	c.running = t.Context()
	if err := c.cached.Add(shrunk); err != nil {
		t.Fatal(err)
	}
	c.adopt()
	if _, err := c.plane("acme"); !errors.Is(err, errNotMade) || !strings.Contains(err.Error(), "no source") {
		t.Errorf("it is not available as %v", err)
	}
}
