package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// Upstream fact: the cleaner of legacy tokens lists the pods that mount them
//
// Mirrors: k8s.io/kubernetes/pkg/controller/serviceaccount.NewLegacySATokenCleaner
//   k8s.io/kubernetes/pkg/controller/serviceaccount.LegacySATokenCleaner.Run
//   k8s.io/client-go/tools/cache.ToListWatcherWithWatchListSemantics
// Why: no pods are served, and an informer that never syncs would hold the
//   cleaner.
// Gain: unused legacy tokens are removed.
// Breaks: the cleaner does not run. TestNoPods fails.

// NoPods is the pod informer of a server without pods: when it runs, it is synced and
// empty.
type NoPods struct{ informer cache.SharedIndexInformer }

// NewNoPods returns the informer, which the caller runs.
func NewNoPods() NoPods {
	source := &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return &corev1.PodList{}, nil },
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return watch.NewFake(), nil
		},
	}
	return NoPods{cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(source, listOnly{}), &corev1.Pod{}, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
}

// listOnly is a source that cannot stream lists.
type listOnly struct{}

// IsWatchListSemanticsUnSupported implements client-go's check of that name.
func (listOnly) IsWatchListSemanticsUnSupported() bool { return true }

// Informer implements [coreinformers.PodInformer].
func (p NoPods) Informer() cache.SharedIndexInformer { return p.informer }

// Lister implements [coreinformers.PodInformer].
func (p NoPods) Lister() corelisters.PodLister {
	return corelisters.NewPodLister(p.informer.GetIndexer())
}

var _ coreinformers.PodInformer = NoPods{}
