package logs

import (
	"runtime"
	"strings"
)

// Upstream fact: the texts of harmless warnings and errors
//
// Mirrors: k8s.io/component-base/metrics.SetLabelAllowListFromManifest#empty
//   k8s.io/apiserver/pkg/server.GenericAPIServer.installAPIResources#Skipping
//   k8s.io/apiserver/pkg/server.RunServer#Failed
//   k8s.io/client-go/tools/cache.WaitForNamedCacheSync#Unable
//   k8s.io/client-go/tools/cache.WaitForNamedCacheSyncWithContext#Unable
//   k8s.io/client-go/tools/cache.DefaultWatchErrorHandler#Failed
//   k8s.io/apiserver/pkg/server/dynamiccertificates.DynamicCertKeyPairContent.Run#Failed
//   k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch.typeConverterManager.Run#openapi
//   k8s.io/kubernetes/pkg/controller/resourcequota.Controller.Sync#Timed
//   k8s.io/kubernetes/pkg/controller/resourcequota.Controller.worker#processing
//   k8s.io/kubernetes/pkg/controller/garbagecollector.GarbageCollector.Sync#waiting
//   k8s.io/apiserver/pkg/storage/cacher.indexedWatchers.terminateAll#Terminating
//   k8s.io/apiserver/pkg/storage/etcd3.watchChan.startWatching#latest
//   k8s.io/apiserver/pkg/endpoints/handlers/responsewriters.SerializeObject#unable
//   k8s.io/apiserver/pkg/endpoints/handlers/responsewriters.ErrorToAPIStatus#received
//   k8s.io/apiserver/pkg/server/filters.timeoutHandler.ServeHTTP#Post-timeout
//   k8s.io/apiserver/pkg/server/filters.WithPanicRecovery#Timeout
//   k8s.io/apiserver/pkg/endpoints/request.RequestInfoFactory.NewRequestInfo
//   k8s.io/apiserver/pkg/util/flowcontrol/request.listWorkEstimator.estimate
//   k8s.io/kubernetes/pkg/registry/core/service/ipallocator/controller.RepairIPAddress.syncService
//   k8s.io/apiserver/pkg/admission/plugin/webhook/validating.validatingDispatcher.Dispatch#rejected
//   go.etcd.io/etcd/client/pkg/v3/fileutil.purgeFile
//   go.etcd.io/etcd/server/v3/auth.NewTokenProvider#signed
//   go.etcd.io/etcd/server/v3/embed.Config.Validate#single
//   go.etcd.io/etcd/server/v3/embed.Etcd.errHandler
//   go.etcd.io/etcd/server/v3/etcdserver.EtcdServer.StorageVersion#Failed
//   go.etcd.io/etcd/server/v3/etcdserver.EtcdServer.applyEntryNormal#exceeded
//   go.etcd.io/etcd/server/v3/etcdserver.monitorFileDescriptor#failed
//   go.etcd.io/etcd/server/v3/etcdserver/version.Monitor.UpdateStorageVersionIfNeeded#failed
//   go.etcd.io/etcd/server/v3/etcdserver/txn.WarnOfFailedRequest
//   go.etcd.io/etcd/server/v3/storage.NewBackendQuota#exceeds
//   go.etcd.io/etcd/client/v3.Client.unaryClientInterceptor#retrying
//   go.etcd.io/raft/v3.raft.hup#pending
// Why: every healthy start, every new CRD and every client that goes away makes Kubernetes
//   components warn. etcd warns of settings that a member of one process has on purpose, of
//   what a new member lacks for its first milliseconds, and of every request that it
//   refuses. The logs have no other mark than the text.
// Gain: the log of a healthy server has no warnings, so that one means something.
// Breaks: the warning shows as a warning. TestReadme, TestDisabledAPIs and
//   TestStartLogsAboutTenLines fail for those of each start and of each new type.

// notStatus begins messages about an error that is not of the API.
const notStatus = `"Unhandled Error" err="apiserver received an error that is not an metav1.Status: &errors.errorString`

// unwritten begins messages about an answer that nobody gets.
const unwritten = `"Unhandled Error" err="apiserver was unable to write a `

// harmlessPrefixes begin such messages.
var harmlessPrefixes = []string{
	// The file of an option that is not set.
	"The manifest file is empty, ignoring.",
	// A version that is known and switched off.
	"Skipping API ",
	// A type is new: the controllers that follow types start over.
	`"Unable to sync caches"`,
	`"Timed out waiting for quota monitor sync"`,
	`"Unhandled Error" err="timed out waiting for dependency graph builder sync during GC sync"`,
	// A CRD was deleted or changed: its watches end, and clients resume them.
	"Terminating all watchers from cacher ",
	// A webhook rejected a request, and the client got its message.
	"rejected by webhook ",
	// A client disconnected.
	notStatus + `{s:\"http: Handler timeout\"}`,
	notStatus + `{s:\"body closed by handler\"}`,
	notStatus + `{s:\"context canceled\"}`,
	notStatus + `{s:\"client disconnected\"}`,
	`"Post-timeout activity"`,
	`"Timeout or abort while handling"`,
	// A client sent an invalid request and got an error: the log would be the client's.
	`"Couldn't parse request"`,
	`"Failed to convert options while estimating work for the list request"`,
	// The stop does not wait for connections without requests.
	"Failed to shutdown server: context deadline exceeded",
}

// harmlessPairs are the beginning and another part of such messages.
var harmlessPairs = [][2]string{
	// A client disconnected, or a control plane went to sleep.
	{unwritten, "JSON response: http: Handler timeout"},
	{unwritten, "JSON response: context canceled"},
	// An aggregated server is down; the condition of its APIService reports it.
	{`"Failed to watch"`, "the server is currently unable to handle the request"},
	// The kernel gives the user no further instance of inotify: the file is read each minute.
	{`"Failed to watch cert and`, "error creating fsnotify watcher"},
	// A control plane of a process that goes on was stopped.
	{"", "the API server of this process has stopped"},
	{`"Failed to watch"`, "context canceled"},
	{`"Failed to watch"`, "the server is stopping"},
	{`"Failed to watch"`, "time to stop HTTP server"},
	{`"Unhandled Error" err="failed to fetch openapi paths`, "the server is currently unable to handle the request"},
	// The first start: the namespace is created at the same time, and the
	// controller tries again.
	{"", `namespaces \"kube-system\" not found`},
	// A store was replaced while its watch began: that of service accounts in the profile
	// kubernetes.
	{"failed to sync with latest state: ", "context canceled"},
	// The quota's usage was written by admission or a client meanwhile; the
	// controller tries again.
	{`"Error processing resource quota work item"`, "the object has been modified"},
	// The quota was deleted meanwhile, for example with its namespace.
	{`"Error processing resource quota work item"`, " not found"},
	// A Service is new, or is being deleted, and the cache of its addresses lags behind.
	{`"Unhandled Error" err="the ClusterIP [`, ` is not allocated; repairing"`},
	// The publisher's cache lags behind its own write, and it tries again.
	{"", `configmaps \"kube-root-ca.crt\" already exists`},
}

// HarmlessKubernetes reports whether a message of a Kubernetes component at level
// warning or error needs no attention: a healthy server writes it, or another message
// has the same content.
func HarmlessKubernetes(text string) bool {
	for _, prefix := range harmlessPrefixes {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	for _, pair := range harmlessPairs {
		if strings.HasPrefix(text, pair[0]) && strings.Contains(text, pair[1]) {
			return true
		}
	}
	return false
}

// harmlessEtcd are parts of such messages.
var harmlessEtcd = []string{
	// Settings: no users, and one port for all.
	"simple token is not cryptographically signed",
	"Running http and grpc server on single port",
	"quota exceeds the maximum value",
	// The first milliseconds of a new member, or of one with a long log.
	"Failed to detect schema version",
	"failed to update storage version",
	"since there are still pending configuration changes",
	// A request was refused; the client gets the error.
	"failed to apply request",
	"message exceeded backend quota; raising alarm",
}

// HarmlessEtcd reports whether a message of etcd at level warning or error needs
// no attention. cause is its error, if it has one.
func HarmlessEtcd(text, cause string) bool {
	for _, part := range harmlessEtcd {
		if strings.Contains(text, part) {
			return true
		}
	}
	// etcd counts open files on Linux only.
	if runtime.GOOS != "linux" && strings.Contains(text, "failed to get file descriptor usage") {
		return true
	}
	// An old file of the log that the member still uses is not removed yet.
	if text == "failed to lock file" && strings.Contains(cause, "file already locked") {
		return true
	}
	// The client has given up its request.
	return text == "retrying of unary invoker failed" && strings.Contains(cause, "code = Canceled")
}
