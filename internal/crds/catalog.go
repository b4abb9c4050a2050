package crds

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
)

// catalog holds the light CRDs that this server serves: those of the informer, and what
// this server has written and the informer has not received yet. Its objects are
// read-only. It is safe for concurrent use.
type catalog struct {
	// changes orders changes and their notifications.
	changes   sync.Mutex
	listeners []*listener
	// seen is the latest resource version of the informer's events.
	seen uint64

	// notified counts the notifications.
	notified atomic.Uint64

	mu      sync.RWMutex
	byName  map[string]*apiextensionsv1.CustomResourceDefinition
	byGroup map[string]map[string]*apiextensionsv1.CustomResourceDefinition
}

// listener is called after each change.
type listener struct {
	changed func(before, after *apiextensionsv1.CustomResourceDefinition)
}

func newCatalog() *catalog {
	return &catalog{
		byName:  map[string]*apiextensionsv1.CustomResourceDefinition{},
		byGroup: map[string]map[string]*apiextensionsv1.CustomResourceDefinition{},
	}
}

// listen adds a function that is called after each change, one call at a time.
// before is nil for a new CRD, after for a deleted one. Listeners are called in
// the order in which they were added, and not after remove has returned.
func (c *catalog) listen(changed func(before, after *apiextensionsv1.CustomResourceDefinition)) (remove func()) {
	added := &listener{changed}
	c.changes.Lock()
	defer c.changes.Unlock()
	c.listeners = append(c.listeners, added)
	return func() {
		c.changes.Lock()
		defer c.changes.Unlock()
		c.listeners = slices.DeleteFunc(c.listeners, func(l *listener) bool { return l == added })
	}
}

// get returns nil for an unknown name.
func (c *catalog) get(name string) *apiextensionsv1.CustomResourceDefinition {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.byName[name]
}

// all returns the CRDs in no order.
func (c *catalog) all() []*apiextensionsv1.CustomResourceDefinition {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.AppendSeq(make([]*apiextensionsv1.CustomResourceDefinition, 0, len(c.byName)), maps.Values(c.byName))
}

// group returns the CRDs of a group in no order.
func (c *catalog) group(name string) []*apiextensionsv1.CustomResourceDefinition {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Collect(maps.Values(c.byGroup[name]))
}

func (c *catalog) size() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.byName)
}

// wrote adds what this server has just written, unless the informer has received it, or
// its deletion, already.
func (c *catalog) wrote(crd *apiextensionsv1.CustomResourceDefinition) {
	c.changes.Lock()
	defer c.changes.Unlock()
	if version(crd) > c.seen {
		c.set(crd)
	}
}

// OnAdd implements [cache.ResourceEventHandler].
func (c *catalog) OnAdd(obj any, _ bool) { c.OnUpdate(nil, obj) }

// OnUpdate implements [cache.ResourceEventHandler].
func (c *catalog) OnUpdate(_, obj any) {
	crd := obj.(*apiextensionsv1.CustomResourceDefinition)
	c.changes.Lock()
	defer c.changes.Unlock()
	c.seen = max(c.seen, version(crd))
	c.set(crd)
}

// OnDelete implements [cache.ResourceEventHandler].
func (c *catalog) OnDelete(obj any) {
	crd, ok := reconcile.Deleted[*apiextensionsv1.CustomResourceDefinition](obj)
	if !ok {
		return
	}
	c.changes.Lock()
	defer c.changes.Unlock()
	c.seen = max(c.seen, version(crd))
	before := c.get(crd.Name)
	if before == nil || before.UID != crd.UID {
		return
	}
	c.mu.Lock()
	c.remove(before)
	c.mu.Unlock()
	c.notify(before, nil)
}

// set is called with changes held.
func (c *catalog) set(crd *apiextensionsv1.CustomResourceDefinition) {
	before := c.get(crd.Name)
	if before != nil && version(before) > version(crd) {
		return
	}
	c.mu.Lock()
	if before != nil {
		c.remove(before)
	}
	c.byName[crd.Name] = crd
	group := c.byGroup[crd.Spec.Group]
	if group == nil {
		group = map[string]*apiextensionsv1.CustomResourceDefinition{}
		c.byGroup[crd.Spec.Group] = group
	}
	group[crd.Name] = crd
	c.mu.Unlock()
	if before == nil || version(before) != version(crd) { // otherwise the informer's copy of what was written here
		c.notify(before, crd)
	}
}

// remove is called with mu held.
func (c *catalog) remove(crd *apiextensionsv1.CustomResourceDefinition) {
	delete(c.byName, crd.Name)
	delete(c.byGroup[crd.Spec.Group], crd.Name)
	if len(c.byGroup[crd.Spec.Group]) == 0 {
		delete(c.byGroup, crd.Spec.Group)
	}
}

func (c *catalog) notify(before, after *apiextensionsv1.CustomResourceDefinition) {
	c.notified.Add(1)
	for _, listener := range c.listeners {
		listener.changed(before, after)
	}
}

// version is the resource version as a number; 0 if it is none.
func version(crd *apiextensionsv1.CustomResourceDefinition) uint64 {
	number, _ := strconv.ParseUint(crd.ResourceVersion, 10, 64) // after an error it does not come from etcd
	return number
}
