package logs

import (
	"runtime"
	"strings"
)

// Upstream fact: the texts of harmless warnings and errors of etcd
//
// Mirrors: go.etcd.io/etcd/client/pkg/v3/fileutil.purgeFile
//   go.etcd.io/etcd/server/v3/auth.NewTokenProvider
//   go.etcd.io/etcd/server/v3/embed.Config.Validate
//   go.etcd.io/etcd/server/v3/embed.Etcd.errHandler
//   go.etcd.io/etcd/server/v3/embed.serveCtx.serve
//   go.etcd.io/etcd/server/v3/etcdserver.EtcdServer.StorageVersion
//   go.etcd.io/etcd/server/v3/etcdserver.EtcdServer.applyEntryNormal
//   go.etcd.io/etcd/server/v3/etcdserver.monitorFileDescriptor
//   go.etcd.io/etcd/server/v3/etcdserver/version.Monitor.UpdateStorageVersionIfNeeded
//   go.etcd.io/etcd/server/v3/etcdserver/txn.WarnOfFailedRequest
//   go.etcd.io/etcd/server/v3/storage.NewBackendQuota
//   go.etcd.io/etcd/client/v3.Client.unaryClientInterceptor
//   go.etcd.io/raft/v3.raft.hup
// Why: etcd warns of settings that a member of one process has on purpose, of
//   what a new member lacks for its first milliseconds, and of every request
//   that it refuses. Its log has no other mark than the text.
// Gain: the log of a healthy server has no warnings, so that one means something.
// Breaks: the warning shows as a warning. TestTour and TestStartLogsAboutTenLines fail for
//   those of each start.

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
