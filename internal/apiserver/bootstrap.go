package apiserver

import (
	"cmp"
	"context"
	"crypto/subtle"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/internal/endpoints"
	"kube-hyper-mini.io/kube-hyper-mini/internal/servedtypes"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

const (
	readyPoll = 3 * time.Millisecond
	// startedAnnotation on kube-system is the time of the last start.
	startedAnnotation = "kube-hyper-mini.io/started"
)

// writeBootstrap writes the objects that every server has: the bootstrap RBAC policy and
// the CRD of ServiceEndpoint. It returns when all checks of /readyz but processCheck succeed,
// and stored policies that mutate have their schemas. Call it while the server serves.
func (s *Server) writeBootstrap(ctx context.Context) error {
	config := s.bootstrapConfig()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make the bootstrap client: %w", err)
	}
	// Until the OpenAPI documents are built, policies that mutate refuse the requests that they match.
	mutating, err := s.storage.HasObjects(ctx, admissionregistrationv1.Resource("mutatingadmissionpolicybindings"), "")
	if err != nil {
		return err
	}
	if mutating {
		s.BuildOpenAPI()
	}
	// With the feature StorageVersionAPI, the server refuses writes until it has
	// published its storage versions.
	var installed error
	if err := s.poll(ctx, func(ctx context.Context) error {
		if installed = s.install(ctx, client, config); apierrors.IsServiceUnavailable(installed) {
			return installed
		}
		return nil
	}); err != nil {
		return err
	}
	if installed != nil {
		return installed
	}
	if err := s.poll(ctx, func(ctx context.Context) error {
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").Param("exclude", processCheck).DoRaw(ctx)
		return err
	}); err != nil {
		return fmt.Errorf("wait for the API server to be ready: %w", err)
	}
	if mutating {
		if err := s.openAPI.wait(ctx); ctx.Err() != nil { // a failed build is in the log
			return fmt.Errorf("wait until mutating admission policies are in force: %w", err)
		}
	}
	return nil
}

// install writes the bootstrap objects concurrently.
func (s *Server) install(ctx context.Context, client kubernetes.Interface, config *rest.Config) error {
	group, ctx := errgroup.WithContext(ctx)
	if !s.hasFirstObjects {
		group.Go(func() error { return s.installNamespaces(ctx, client) })
		group.Go(func() error { return s.installPolicy(ctx, client) })
	}
	group.Go(func() error { return endpoints.Install(ctx, config, s.log) })
	group.Go(func() error { return s.profile.bootstrap(ctx, client) })
	return group.Wait()
}

// installNamespaces creates the namespaces that each server has: kube-apiserver's
// controller of them is subject to admission, and may do it after the server is ready. A
// full database is no error: it refuses to create namespaces that exist, too.
func (s *Server) installNamespaces(ctx context.Context, client kubernetes.Interface) error {
	known := s.informers.Core().V1().Namespaces().Lister()
	for _, name := range s.namespaces {
		if _, err := known.Get(name); err == nil {
			continue
		}
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) &&
			apierrors.ReasonForError(err) != storage.ReasonInsufficientStorage {
			return fmt.Errorf("create the namespace %s: %w", name, err)
		}
	}
	return nil
}

// bootstrapPolicy is that of Kubernetes, with the roles for what this program adds.
func bootstrapPolicy() kube.Policy {
	policy := kube.BootstrapPolicy()
	policy.ClusterRoles = append(policy.ClusterRoles, append(servedtypes.Roles(), endpoints.ViewRole())...)
	role, binding := controllersRole()
	policy.Roles[role.Namespace] = append(slices.Clip(policy.Roles[role.Namespace]), role)
	policy.RoleBindings[role.Namespace] = append(slices.Clip(policy.RoleBindings[role.Namespace]), binding)
	return policy
}

// installPolicy writes the bootstrap RBAC policy.
func (s *Server) installPolicy(ctx context.Context, client kubernetes.Interface) error {
	if !s.Serves(rbacv1.SchemeGroupVersion.WithResource("clusterroles")) {
		return nil // with the resource disabled, there is no RBAC
	}
	if err := kube.EnsureRBAC(ctx, client, s.log, bootstrapPolicy()); err != nil {
		return fmt.Errorf("write the bootstrap RBAC policy: %w", err)
	}
	return nil
}

// ProveWrite makes the authenticated write that readiness means: it sets an annotation of
// the namespace kube-system, which every configuration has. The write bypasses
// admission. A full database is no error: the server serves reads and deletions.
func (s *Server) ProveWrite(ctx context.Context, started time.Time) error {
	client, err := kubernetes.NewForConfig(s.bootstrapConfig())
	if err != nil {
		return fmt.Errorf("make the client for the first write: %w", err)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, startedAnnotation,
		started.UTC().Format(time.RFC3339))
	err = s.poll(ctx, func(ctx context.Context) error {
		_, err := client.CoreV1().Namespaces().Patch(ctx, metav1.NamespaceSystem, types.MergePatchType,
			patch, metav1.PatchOptions{})
		if apierrors.ReasonForError(err) == storage.ReasonInsufficientStorage {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("make the first write: %w", err)
	}
	return nil
}

// pingTimeout bounds one Ping.
const pingTimeout = 10 * time.Second

// Ping sends a request that needs only the API server, not etcd.
func (s *Server) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	client, err := kubernetes.NewForConfig(s.bootstrapConfig())
	if err != nil {
		return fmt.Errorf("make the client: %w", err)
	}
	if _, err := client.Discovery().RESTClient().Get().AbsPath("/livez/ping").DoRaw(ctx); err != nil {
		return fmt.Errorf("ping the API server: %w", err)
	}
	return nil
}

// WaitsFor names what Run or ProveWrite waits for; empty if they do not wait.
func (s *Server) WaitsFor() string {
	reason, _ := s.waitsFor.Load().(string)
	return reason
}

// logDelay is the duration of a wait after which the log has the reason.
const logDelay = 3 * time.Second

// poll calls check until it succeeds or ctx ends. [logging.Changes] does not fit: a reason is
// logged only if the wait lasts.
func (s *Server) poll(ctx context.Context, check func(context.Context) error) error {
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	began, logged := time.Now(), ""
	for {
		err := check(ctx)
		if err == nil {
			s.waitsFor.Store("")
			return nil
		}
		if ctx.Err() == nil {
			reason := kube.FailedChecks(cmp.Or(s.storage.Damage(), err))
			s.waitsFor.Store(reason)
			if time.Since(began) > logDelay && logged != reason {
				s.log.Warn("still starting", "waiting for", reason)
				logged = reason
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last answer: %w", context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}

// bootstrapUser makes the writes that the server needs to become ready. Admission does
// not apply to them: a policy that protects kube-system, or a webhook whose server is
// down, must not keep the server unready. It is recognized by its Go type, so no
// impersonation can have it.
type bootstrapUser struct{ *user.DefaultInfo }

// bootstrapToken authenticates the bootstrap user. Each process makes its own and uses
// it in the process only.
type bootstrapToken string

// authenticate adds the user to the authenticators of c.
func (t bootstrapToken) authenticate(c *genericapiserver.Config) {
	c.Authentication.Authenticator = union.New(bearertoken.New(t), c.Authentication.Authenticator)
}

// AuthenticateToken implements [authenticator.Token].
func (t bootstrapToken) AuthenticateToken(_ context.Context, token string) (*authenticator.Response, bool, error) {
	if subtle.ConstantTimeCompare([]byte(token), []byte(t)) != 1 {
		return nil, false, nil
	}
	return &authenticator.Response{User: bootstrapUser{&user.DefaultInfo{
		Name: user.APIServerUser, Groups: []string{user.AllAuthenticated, user.SystemPrivilegedGroup},
	}}}, true, nil
}

// bootstrapAdmission is admission for all but the bootstrap user.
type bootstrapAdmission struct{ admission.Interface }

// Admit implements [admission.MutationInterface].
func (b bootstrapAdmission) Admit(ctx context.Context, attributes admission.Attributes,
	o admission.ObjectInterfaces) error {
	mutation, ok := b.Interface.(admission.MutationInterface)
	if !ok || isBootstrap(attributes) {
		return nil
	}
	return mutation.Admit(ctx, attributes, o)
}

// Validate implements [admission.ValidationInterface].
func (b bootstrapAdmission) Validate(ctx context.Context, attributes admission.Attributes,
	o admission.ObjectInterfaces) error {
	validation, ok := b.Interface.(admission.ValidationInterface)
	if !ok || isBootstrap(attributes) {
		return nil
	}
	return validation.Validate(ctx, attributes, o)
}

func isBootstrap(attributes admission.Attributes) bool {
	_, is := attributes.GetUserInfo().(bootstrapUser)
	return is
}

// controllersRole allows the user system:kube-controller-manager to take part in the leader
// election and to impersonate service accounts in kube-system. The process
// `kube-hyper-mini controllers` connects as this user. Upstream's bootstrap policy has
// its other rights.
func controllersRole() (rbacv1.Role, rbacv1.RoleBinding) {
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kube-hyper-mini:controllers"}
	role := rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{"serviceaccounts"}},
		{Verbs: []string{"get", "create", "update"}, APIGroups: []string{coordinationv1.GroupName},
			Resources: []string{"leases"}},
	}}
	return role, rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user.KubeControllerManager}},
	}
}
