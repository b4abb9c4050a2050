package planes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
)

// controller keeps the control planes of a manager as the ControlPlanes of the host describe
// them.
type controller struct {
	*Manager
	client dynamic.ResourceInterface
	cached cache.Store // of *kept
}

// run is the controller of the host's program. It returns when ctx has ended and all control
// planes have stopped.
func (m *Manager) run(ctx context.Context, config *rest.Config) error {
	if err := m.sweep(); err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make the client for ControlPlanes: %w", err)
	}
	informers := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	informer := informers.ForResource(Resource).Informer()
	if err := informer.SetTransform(shrink); err != nil {
		return fmt.Errorf("follow the ControlPlanes: %w", err)
	}
	c := &controller{m, client.Resource(Resource), informer.GetStore()}
	m.objects = client
	m.queue = reconcile.New(reconcile.Config[string]{Workers: reconcilers, MinRetry: 10 * time.Millisecond,
		MaxRetry: maxRetry, Handle: c.handle})
	defer m.queue.Stop() // if it is not run
	enqueue := func(o any) {
		if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o); err == nil { // objects have names
			m.queue.Add(name)
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, DeleteFunc: enqueue,
		UpdateFunc: func(old, o any) { // a status update needs no reconcile, also after a failure
			if before, now := old.(metav1.Object), o.(metav1.Object); before.GetGeneration() != now.GetGeneration() ||
				before.GetDeletionTimestamp().IsZero() != now.GetDeletionTimestamp().IsZero() {
				enqueue(o)
			}
		},
	}); err != nil {
		return fmt.Errorf("follow the ControlPlanes: %w", err)
	}
	informers.Start(ctx.Done())
	defer informers.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil // a stop
	}
	c.adopt()
	m.mu.Lock()
	m.running = ctx
	m.mu.Unlock()
	var work sync.WaitGroup
	work.Go(func() {
		m.upkeep(ctx, func(ctx context.Context, p *plane) error { return c.delete(ctx, p.name, p.uid) })
	})
	work.Go(func() { wait.UntilWithContext(ctx, m.administrators.endUntrusted, trustPoll) })
	work.Go(func() { m.queue.Run(ctx) })
	work.Wait()
	m.stop()
	return nil
}

// reconcilers is the number of ControlPlanes that are made or deleted at a time.
const reconcilers = 4

// sweep removes what a former process has left half-made or half-removed.
func (m *Manager) sweep() error {
	entries, err := os.ReadDir(m.dir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the directory of control planes: %w", err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if strings.HasPrefix(name, removedPrefix) || strings.HasPrefix(name, fillPrefix) || datadir.IsTemporary(name) {
			if err := os.RemoveAll(filepath.Join(m.dir(), name)); err != nil {
				return fmt.Errorf("remove what a former process has left: %w", err)
			}
		}
	}
	return os.MkdirAll(m.dir(), 0o700)
}

// adopt makes the planes of all ControlPlanes known, before requests are served.
func (c *controller) adopt() {
	for _, cached := range c.cached.List() {
		o, err := cached.(*kept).object()
		if err != nil {
			continue // reconcile reports it
		}
		claimed, former := c.isClaimed(o)
		switch {
		case !o.DeletionTimestamp.IsZero() || o.Status.Phase == "":
		case former != nil:
			c.fail(o.Name, former)
		case !c.isUnfilled(o):
			if p := c.know(o); claimed && o.Status.Phase == phaseFailed {
				p.failure = errors.New(o.Status.Message) // until it starts
			}
		case o.Status.Message != "":
			c.fail(o.Name, errors.New(o.Status.Message))
		}
	}
}

// know makes the plane of a ControlPlane known, and gives it its spec.
func (c *controller) know(o *object) *plane {
	c.mu.Lock()
	p := c.planes[o.Name]
	if p == nil {
		p = &plane{manager: c.Manager, name: o.Name}
		p.made, p.size, p.objects, p.lastUsed = o.Status.Made, o.Status.SizeBytes, o.Status.Objects, o.Status.LastUsed.Time
		p.uid, p.definitions = o.UID, o.Status.CRDs
		if p.lastUsed.IsZero() {
			p.lastUsed = o.CreationTimestamp.Time
		}
		if written := p.modified("etcd", "member", "snap", "db"); written.After(p.lastUsed) {
			p.lastUsed = written // the status is of the last change of state, or of an older backup of the host
		}
		if o.Status.Phase == phaseAwake {
			p.lastUsed = time.Now() // it was in use until the host ended, perhaps for reads only
		}
		c.planes[o.Name] = p
		delete(c.failed, o.Name)
	}
	c.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spec.Backup != o.Spec.Backup && p.state == asleep {
		p.backupDue = p.nextBackup(o.Spec.Backup)
	}
	p.outdated = p.outdated || !equality.Semantic.DeepEqual(p.spec.configured(), o.Spec.configured())
	p.spec = o.Spec
	return p
}

// handle reconciles one ControlPlane, and retries it after an error.
func (c *controller) handle(ctx context.Context, name string) reconcile.Result {
	before := c.failureOf(name)
	err := c.reconcile(ctx, name)
	if err == nil || ctx.Err() != nil {
		return reconcile.Done()
	}
	if known := before != "" && before == c.failureOf(name); !known && !apierrors.IsConflict(err) {
		c.config.Log.Warn("reconciling a ControlPlane failed, trying again", "plane", name, "error", err)
	}
	return reconcile.Retry()
}

// kept is what the informer keeps of a ControlPlane: its text in one piece. A decoded object would be
// twenty allocations, each of which may keep freed memory from being returned to the system.
type kept struct {
	metav1.ObjectMeta // what informers and their handlers read
	text              []byte
}

// shrink makes what is kept of an object of the informer.
func shrink(o any) (any, error) {
	content, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil // it has been shrunk
	}
	content.SetManagedFields(nil)
	text, err := content.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("read a ControlPlane: %w", err)
	}
	return &kept{text: text, ObjectMeta: metav1.ObjectMeta{
		Name: content.GetName(), Generation: content.GetGeneration(), ResourceVersion: content.GetResourceVersion(),
		DeletionTimestamp: content.GetDeletionTimestamp(),
	}}, nil
}

func (k *kept) object() (*object, error) {
	o := &object{}
	if err := json.Unmarshal(k.text, o); err != nil {
		return nil, fmt.Errorf("read the ControlPlane %s: %w", k.Name, err)
	}
	return o, nil
}

// reconcile makes, describes or removes the control plane of one object.
func (c *controller) reconcile(ctx context.Context, name string) error {
	cached, exists, err := c.cached.GetByKey(name)
	if err != nil {
		return err
	}
	if !exists {
		c.fail(name, nil)
		return c.forget(ctx, name) // it was removed before its finalizer
	}
	o, err := cached.(*kept).object()
	if err != nil {
		return err
	}
	if !o.DeletionTimestamp.IsZero() {
		return c.remove(ctx, o)
	}
	c.mu.Lock()
	p := c.planes[name]
	c.mu.Unlock()
	if p != nil && p.uid != o.UID { // as before, and there is another one already
		if err := c.forget(ctx, name); err != nil {
			return err
		}
		p = nil
	}
	unfilled := p == nil && c.isUnfilled(o)
	err = c.claim(o)
	if err == nil && unfilled {
		err = c.fill(ctx, o)
	}
	if err != nil {
		c.fail(name, err)
		if life := durationOf(o.Spec.Lifetime, 0); unfilled && life > 0 && time.Since(o.CreationTimestamp.Time) >= life {
			return c.delete(ctx, name, o.UID)
		}
		return errors.Join(err, c.writeStatus(ctx, o, Status{Phase: phaseFailed, Message: err.Error()}))
	}
	o.Status.Made = o.Status.Made || unfilled
	return c.writeStatus(ctx, o, c.know(o).status())
}

// status describes the plane.
func (p *plane) status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Status{Phase: phaseAsleep, Made: p.made, Objects: p.objects, SizeBytes: p.size, CRDs: p.definitions,
		LastUsed: metav1.Time{Time: p.lastUsed.Truncate(time.Second)}}
	if p.spec.Journal != nil {
		s.Journal = p.journal()
	}
	if p.oldCRDs != nil {
		s.Message = p.oldCRDs.Error()
	}
	if host := p.manager.config.URL(); host != "" {
		s.URL = URL(host, p.name)
	}
	switch {
	case p.failure != nil:
		s.Phase, s.Message = phaseFailed, p.failure.Error()
	case p.state == awake || p.state == stopping:
		s.Phase = phaseAwake
	}
	return s
}

// writeStatus writes the status if it says something new.
func (c *controller) writeStatus(ctx context.Context, o *object, status Status) error {
	status.Made = status.Made || o.Status.Made
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: status.Phase, Message: status.Message,
		ObservedGeneration: o.Generation}
	if status.Phase == phaseFailed {
		ready.Status = metav1.ConditionFalse
	}
	status.Conditions = slices.Clone(o.Status.Conditions)
	meta.SetStatusCondition(&status.Conditions, ready)
	if equality.Semantic.DeepEqual(o.Status, status) {
		return nil
	}
	patch, err := json.Marshal([]map[string]any{{"op": "test", "path": "/metadata/uid", "value": o.UID},
		{"op": "add", "path": "/status", "value": status}})
	if err != nil {
		return err
	}
	_, err = c.client.Patch(ctx, o.Name, types.JSONPatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// remove removes the control plane, and then lets its object go.
func (c *controller) remove(ctx context.Context, o *object) error {
	if !slices.Contains(o.Finalizers, finalizer) {
		return nil
	}
	current, err := c.client.Get(ctx, o.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && current.GetUID() != o.UID {
		return nil // it was removed, and the cache does not know yet; another one may have its name
	}
	if err != nil {
		return err
	}
	if err := c.removeData(ctx, o); err != nil {
		return errors.Join(err, c.writeStatus(ctx, o, Status{Phase: phaseFailed, Message: err.Error()}))
	}
	current.SetFinalizers(slices.DeleteFunc(current.GetFinalizers(), func(f string) bool { return f == finalizer }))
	if _, err = c.client.Update(ctx, current, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if len(current.GetFinalizers()) == 0 {
		return nil // it has gone
	}
	o.Status.Made = false
	return c.writeStatus(ctx, o, Status{Phase: phaseFailed, Message: "its data is removed: other finalizers keep it"})
}

// removeData stops the control plane and removes its directory, but not that of a former one.
func (c *controller) removeData(ctx context.Context, o *object) error {
	c.mu.Lock()
	p := c.planes[o.Name]
	c.mu.Unlock()
	if p == nil {
		_, err := c.isClaimed(o)
		if errors.Is(err, errFormer) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	p = c.know(o)
	err := p.remove(ctx, func() error {
		if o.Spec.Deletion != deletionArchive {
			return nil
		}
		return p.archive(ctx, o.DeletionTimestamp.Time)
	})
	if err == nil {
		err = datadir.RemoveFile(Dir(c.config.Host.DataDir, o.Name) + ownerSuffix)
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	delete(c.planes, o.Name)
	c.mu.Unlock()
	return nil
}

// delete deletes a ControlPlane whose lifetime is over.
func (c *controller) delete(ctx context.Context, name string, uid types.UID) error {
	err := c.client.Delete(ctx, name, *metav1.NewPreconditionDeleteOptions(string(uid)))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // another one may have its name
		return nil
	}
	return err
}
