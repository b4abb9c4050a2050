package kube

import (
	"context"

	"k8s.io/client-go/tools/cache"
)

// Upstream fact: how garbage collector, quota and migrations use an informer
//
// Mirrors: k8s.io/kubernetes/pkg/controller/garbagecollector.GraphBuilder.controllerFor
//   k8s.io/kubernetes/pkg/controller/garbagecollector.GraphBuilder.syncMonitors
//   k8s.io/kubernetes/pkg/controller/garbagecollector.GraphBuilder.startMonitors
//   k8s.io/kubernetes/pkg/controller/garbagecollector.GarbageCollector.resyncMonitors
//   k8s.io/kubernetes/pkg/controller/resourcequota.QuotaMonitor.controllerFor
//   k8s.io/kubernetes/pkg/controller/resourcequota.QuotaMonitor.SyncMonitors
//   k8s.io/controller-manager/pkg/informerfactory.InformerFactory
//   k8s.io/kubernetes/pkg/controller/storageversionmigrator.SVMController.sync
// Why: garbage collector and quota add one handler to the informer of a type, run the
//   controller of the informer, and stop that when the type is gone. The shared factory of
//   Kubernetes never ends an informer. While the monitor of one type cannot be made, the
//   new monitors of other types are not run, and are dropped silently when their types are
//   gone. A storage
//   version migration begins when the monitor of its type has reached the revision of a
//   list, and checks that after growing delays.
// Gain: CRDs that were deleted cost no informer. A migration of a type without changes begins
//   at once, not with the next bookmark of a watch, which is no optimisation but correct.
// Breaks: an informer stops too early, so that dependents are not collected, or never.
//   A migration skips objects that its monitor has not got. Tests:
//   TestInformersEndAfterTheirLastMonitor, TestDeletedTypesReleaseGoroutines,
//   TestStorageVersionMigration.

// MonitorController is the [cache.Controller] of an informer that the controllers run
// while they monitor its type.
type MonitorController struct {
	cache.SharedInformer
	// Ended is called when the monitor is stopped.
	Ended func()
	// Revision returns the resource version up to which the monitor has handled all
	// changes.
	Revision func() string
}

// LastSyncResourceVersion implements [cache.Controller].
func (c MonitorController) LastSyncResourceVersion() string { return c.Revision() }

// Run implements [cache.Controller].
func (c MonitorController) Run(stop <-chan struct{}) {
	<-stop
	c.Ended()
}

// RunWithContext implements [cache.Controller].
func (c MonitorController) RunWithContext(ctx context.Context) { c.Run(ctx.Done()) }
