package controlplane

import (
	"context"
	"io/fs"
	"log/slog"
	"net"
	"net/http"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// Options configure a control plane. The zero value is a control plane in a temporary
// directory that is reachable in the process only.
type Options struct {
	// Dir is the data directory, locked while the control plane runs. Without one, nothing
	// outlives Stop, and writes do not wait for the disk.
	Dir string
	// Config is the configuration, as [config.Load] reads it from a file; nil for the
	// defaults. The zero ServerConfiguration is not valid: start from [config.Default]. Its
	// dataDir is used if Dir is empty. New copies it. Without a directory, its external etcd,
	// kubeconfig, journal, backups and audit log are not used.
	Config *config.ServerConfiguration
	// Listener is served on, and closed when the control plane ends, as by Stop or after an error
	// of Start; if it fails before, the control plane ends ([ControlPlane.Err]). Listen takes the
	// address of the configuration instead (serving.bindAddress, serving.port; 0 is a free port).
	// Without both, the API is reachable in the process only, and no kubeconfig is written.
	Listener net.Listener
	Listen   bool
	// RootCAFile has the authorities that clients in other processes verify the server with, where
	// the program serves them from another one. They are published in each namespace
	// (kube-root-ca.crt). Empty for those of the configuration.
	RootCAFile string
	// Log gets the messages of this control plane; nil discards them. Libraries log to klog
	// and to slog's default logger.
	Log *slog.Logger

	// Part is the part that runs; empty for all of them. Of the options below, the API server
	// alone takes all but Controllers, and the others take none.
	Part Part
	// NewIdentity makes the certificate authorities and keys that a used directory lacks;
	// without it, New and Start refuse such a directory.
	NewIdentity bool
	// Ephemeral removes the content of Dir at the end, and its writes do not wait for the disk.
	// Dir must be new or empty.
	Ephemeral bool
	// OwnsProcess is for the only control plane of a program: the service manager (systemd) is
	// told when it is ready and when it stops, and NOTIFY_SOCKET is removed from the environment.
	OwnsProcess bool

	// Resources are served beside the built-in ones. The objects of a type that is left out stay in
	// the store, even if their namespace is deleted, and are there again with the type. A start
	// waits, with the reason in Log, while an object has a version that is not served any more.
	Resources []Resource
	// Admission is asked for each write of each type, in this order, before webhooks,
	// policies and the other plugins.
	Admission []Admission
	// Middleware wraps the handler of all requests, before authentication; nil for none.
	Middleware func(http.Handler) http.Handler
	// Handlers serve paths outside of the Kubernetes API; one that ends with / serves all below.
	// Requests are authenticated, and authorized as non-resource URLs.
	Handlers map[string]http.Handler
	// TokenAuthenticators and RequestAuthenticators are asked, in this order, for those
	// requests that client certificates, service account tokens and the configured
	// authenticators do not authenticate. Their tokens are for the API's audiences: they leave
	// Response.Audiences empty.
	TokenAuthenticators   []authenticator.Token
	RequestAuthenticators []authenticator.Request
	// Authorizers are asked in this order before the configured ones (RBAC). Users of the
	// group system:masters may do everything whatever they decide. The server's controllers are
	// service accounts of kube-system and the user system:kube-controller-manager, to which RBAC
	// gives their rights: return DecisionNoOpinion on them, or no namespace is ever deleted.
	Authorizers []authorizer.Authorizer
	// Audit returns where audit events go, given where the configuration sends them: nil for
	// nowhere. Without an audit policy in the configuration there are none.
	Audit func(configured audit.Backend) audit.Backend
	// Access is called once, before the API answers, with how requests are authenticated and authorized:
	// Middleware may ask both. The authenticator removes credentials from the request that it gets.
	Access func(authenticator.Request, authorizer.Authorizer)
	// OwnMetrics leaves what the libraries count for the whole process out of /metrics.
	OwnMetrics bool
	// Controllers run while the control plane is ready.
	Controllers []Controller
	// WhileServing runs from the moment the API answers until the controllers have stopped. The
	// start goes on, with the controllers, once it has called ready. A stop cancels ctx when
	// the controllers have ended, and stops the API when it has returned. An error, or a
	// panic, ends the control plane. nil for none.
	WhileServing func(ctx context.Context, ready func()) error
	// Manifests are applied before the control plane is ready: CRDs first, then the other
	// objects in the order of the files. Files with other extensions than .yaml, .yml and
	// .json are ignored. nil for none.
	Manifests fs.FS
}

// Part is a part of a control plane that runs alone, with the others in other processes.
type Part string

const (
	// OnlyAPIServer needs an external etcd in the configuration.
	OnlyAPIServer Part = "apiserver"
	// OnlyControllers are clients of the API servers at controllerManager.server.
	OnlyControllers Part = "controllers"
	// OnlyEtcd serves on etcd.embedded.listen.
	OnlyEtcd Part = "etcd"
)

// Admission is admission control in the program. Mutate and Validate may be nil. An error of
// theirs refuses the request: with its status if it is one of [k8s.io/apimachinery/pkg/api/errors],
// otherwise with 403 Forbidden. A panic costs the request that causes it.
type Admission struct {
	// Name is for messages; no two have the same.
	Name string
	// Operations are those that the functions are called for; empty for all.
	Operations []admission.Operation
	// Mutate may change attributes.GetObject(). Built-in types have the Go type of the version in
	// the request ([k8s.io/api/core/v1.ConfigMap]), types of the program that of their stored
	// version; custom resources are unstructured. It is nil, or has options, for some operations.
	Mutate func(ctx context.Context, attributes admission.Attributes) error
	// Validate looks at the object that will be stored, and does not change it.
	Validate func(ctx context.Context, attributes admission.Attributes) error
}

// Controller is a controller of the program.
type Controller struct {
	// Name is for messages; no two have the same.
	Name string
	// Run gets a client configuration with all rights, and returns when ctx has ended. It
	// runs while the control plane is ready; where several servers share a store, while this
	// one leads. The API is stopped after it has returned, or 20 s after the end of ctx. An
	// error, or a panic, ends the control plane ([ControlPlane.Err]).
	Run func(ctx context.Context, client *rest.Config) error
}
