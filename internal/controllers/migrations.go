package controllers

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"kube-hyper-mini.io/kube-hyper-mini/internal/progress"
	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// migrationProgress shows on a terminal how far storage version migrations are, and logs
// their ends. It counts the requests of the controller that rewrites objects, whose
// status says only whether a migration runs. It is safe for concurrent use.
type migrationProgress struct {
	log *slog.Logger
	// total returns how many objects a type has.
	total func(context.Context, schema.GroupResource) (int64, error)

	mu      sync.Mutex
	running map[string]*runningMigration // by name
	changed chan struct{}                // has an element after a change of running
}

type runningMigration struct {
	resource  schema.GroupResource
	began     time.Time
	rewritten int64
	total     int64 // -1 before it is known
}

func newMigrationProgress(log *slog.Logger, total func(context.Context, schema.GroupResource) (int64, error)) *migrationProgress {
	return &migrationProgress{log: log, total: total, running: map[string]*runningMigration{}, changed: make(chan struct{}, 1)}
}

// objectsOf returns a function that counts the objects of a type.
func objectsOf(client metadata.Interface, mapper apimeta.RESTMapper) func(context.Context, schema.GroupResource) (int64, error) {
	return func(ctx context.Context, resource schema.GroupResource) (int64, error) {
		version, err := mapper.ResourceFor(resource.WithVersion(""))
		if err != nil {
			return 0, fmt.Errorf("find the version of %s: %w", resource, err)
		}
		list, err := client.Resource(version).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return 0, fmt.Errorf("count the objects of %s: %w", resource, err)
		}
		count := int64(len(list.Items))
		if remaining := list.RemainingItemCount; remaining != nil {
			count += *remaining
		}
		return count, nil
	}
}

// handler returns a handler that follows the migrations.
func (m *migrationProgress) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { m.set(obj) },
		UpdateFunc: func(_, obj any) { m.set(obj) },
		DeleteFunc: func(obj any) {
			if migration, ok := reconcile.Deleted[*migrationv1beta1.StorageVersionMigration](obj); ok {
				m.end(migration.Name)
			}
		},
	}
}

func (m *migrationProgress) set(obj any) {
	migration, ok := obj.(*migrationv1beta1.StorageVersionMigration)
	if !ok {
		return
	}
	if !done(migration) {
		if apimeta.IsStatusConditionTrue(migration.Status.Conditions, string(migrationv1beta1.MigrationRunning)) {
			m.begin(migration)
		}
		return
	}
	ended := m.end(migration.Name)
	if ended == nil {
		return // before this process began
	}
	log := m.log.With("name", migration.Name, "resource", ended.resource.String(), "rewritten", ended.rewritten, "took", time.Since(ended.began).Round(time.Millisecond).String())
	if failed := apimeta.FindStatusCondition(migration.Status.Conditions, string(migrationv1beta1.MigrationFailed)); failed != nil && failed.Status == metav1.ConditionTrue {
		log.Warn("a storage version migration failed", "error", failed.Message)
		return
	}
	log.Info("a storage version migration has ended")
}

func (m *migrationProgress) begin(migration *migrationv1beta1.StorageVersionMigration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running[migration.Name] != nil {
		return
	}
	resource := schema.GroupResource{Group: migration.Spec.Resource.Group, Resource: migration.Spec.Resource.Resource}
	m.running[migration.Name] = &runningMigration{resource: resource, began: time.Now(), total: -1}
	m.notify()
}

// end returns the migration; nil if it did not run.
func (m *migrationProgress) end(name string) *runningMigration {
	m.mu.Lock()
	defer m.mu.Unlock()
	ended := m.running[name]
	delete(m.running, name)
	m.notify()
	return ended
}

// notify is called with mu held.
func (m *migrationProgress) notify() {
	select {
	case m.changed <- struct{}{}:
	default: // there is one
	}
}

// run shows migrations until ctx ends.
func (m *migrationProgress) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.changed:
			m.show(ctx)
		}
	}
}

// show shows migrations until none runs.
func (m *migrationProgress) show(ctx context.Context) {
	if !m.count(ctx) {
		return
	}
	defer progress.Track(ctx, "migrating stored objects", m.progressText)()
	for m.count(ctx) {
		select {
		case <-ctx.Done():
			return
		case <-m.changed:
		}
	}
}

// count counts the objects of new migrations and reports whether there are migrations.
func (m *migrationProgress) count(ctx context.Context) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, migration := range m.running {
		if migration.total >= 0 {
			continue
		}
		m.mu.Unlock()
		total, err := m.total(ctx, migration.resource)
		m.mu.Lock()
		if err != nil {
			m.log.Debug("the objects of a storage version migration are not counted", "error", err)
			total = 0
		}
		migration.total = total
	}
	return len(m.running) > 0
}

// progressText says how many objects the migrations have rewritten.
func (m *migrationProgress) progressText() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []string
	for _, migration := range m.running {
		text := fmt.Sprintf("%s %d", migration.resource, migration.rewritten)
		if migration.total > 0 {
			text += fmt.Sprintf(" of %d", migration.total)
		}
		list = append(list, text)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// countRewritten returns a transport that counts the objects that the migrations rewrite.
func (m *migrationProgress) countRewritten(next http.RoundTripper) http.RoundTripper {
	return countingTransport{m, next}
}

type countingTransport struct {
	progress *migrationProgress
	next     http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (c countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(r)
	if err != nil {
		return response, err
	}
	if resource, migrated := kube.MigratedObject(r, response); migrated {
		c.progress.rewrote(resource)
	}
	return response, nil
}

func (m *migrationProgress) rewrote(resource schema.GroupResource) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, migration := range m.running {
		if migration.resource == resource {
			migration.rewritten++
		}
	}
}
