package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/apiserver"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance/temporary"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// ControlPlane is one server. Its methods are safe for concurrent use.
type ControlPlane struct {
	options   Options
	checked   *appliance.Checked
	temporary temporary.Directory // of a control plane without a directory, once it is started

	mu      sync.Mutex
	started bool              // or stopped
	running appliance.Running // once Start has returned nil
	stop    context.CancelFunc
	ready   chan appliance.Running
	done    chan struct{}
	err     error // once done is closed
}

// New checks the options and returns a control plane that has not been started. It opens no
// file for writing and takes no port. All mistakes are in the error; those of the configuration
// are [config.FieldError]s.
func New(options Options) (*ControlPlane, error) {
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	options.Listener = closeOnce(options.Listener)
	extension, err := options.extension()
	if err != nil {
		return nil, err
	}
	cfg := config.Default()
	if options.Config != nil {
		copied := *options.Config
		cfg = &copied
	}
	if options.Dir != "" {
		if cfg.DataDir, err = filepath.Abs(options.Dir); err != nil {
			return nil, fmt.Errorf("Options.Dir: %w", err)
		}
	}
	c := &ControlPlane{options: options, ready: make(chan appliance.Running, 1), done: make(chan struct{})}
	if c.isTemporary() || options.Ephemeral {
		temporary.Configure(cfg)
	}
	if c.isTemporary() {
		cfg.DataDir = filepath.Join(string(filepath.Separator), "kube-hyper-mini-temporary") // until Start
	}
	if c.checked, err = appliance.Check(cfg); err != nil {
		return nil, err
	}
	extension.Ephemeral = options.Ephemeral && !c.isTemporary()
	extension.WhenReady = func(r appliance.Running) { c.ready <- r }
	c.checked.Extend(extension)
	return c, nil
}

// extension checks the options, and returns what they add to the server.
func (o *Options) extension() (appliance.Extension, error) {
	groups, err := newGroups(o.Resources)
	errs := []error{err, o.checkPart(), o.checkNames()}
	if o.Listener != nil && o.Listen {
		errs = append(errs, errors.New("Options.Listener and Options.Listen exclude each other: "+
			"Listen takes the address of the configuration"))
	}
	extension := appliance.Extension{
		Listener: o.Listener, InProcess: o.Listener == nil && !o.Listen, Manifests: o.Manifests, WhileServing: o.WhileServing,
		NewIdentity: o.NewIdentity, OwnsProcess: o.OwnsProcess, RootCAFile: o.RootCAFile,
	}
	extension.API.Groups, extension.API.Paths, extension.API.Handler = groups, o.Handlers, o.Middleware
	extension.API.Tokens, extension.API.Requests = o.TokenAuthenticators, o.RequestAuthenticators
	extension.API.Authorizers, extension.API.Audit, extension.API.OwnMetrics = o.Authorizers, o.Audit, o.OwnMetrics
	extension.API.Access = o.Access
	for i, a := range o.Admission {
		if a.Mutate == nil && a.Validate == nil {
			errs = append(errs, fmt.Errorf("Options.Admission[%d] %q has no function: set Mutate or Validate", i, a.Name))
		}
		extension.API.Admission = append(extension.API.Admission, inlineAdmission{a, groups, o.Log})
	}
	for path, handler := range o.Handlers {
		if !strings.HasPrefix(path, "/") || reservedPath(path) || handler == nil {
			errs = append(errs, fmt.Errorf("Options.Handlers: the path %q is the server's, or has no handler: "+
				"take another one that begins with /", path))
		}
	}
	if slices.Contains(o.TokenAuthenticators, nil) || slices.Contains(o.RequestAuthenticators, nil) ||
		slices.Contains(o.Authorizers, nil) {
		errs = append(errs, errors.New("Options: an authenticator or authorizer is nil"))
	}
	for i, controller := range o.Controllers {
		if controller.Name == "" || controller.Run == nil {
			errs = append(errs, fmt.Errorf("Options.Controllers[%d] needs Name and Run", i))
		}
		extension.Controllers = append(extension.Controllers,
			appliance.Controller{Name: controller.Name, Run: controller.Run})
	}
	return extension, errors.Join(errs...)
}

// checkNames returns an error if two controllers, or two admissions, have the same name.
func (o *Options) checkNames() error {
	var errs []error
	seen := map[string]bool{}
	check := func(field, name string) {
		named := fmt.Sprintf("%s: %q", field, name)
		if name != "" && seen[named] {
			errs = append(errs, errors.New(named+" is there twice"))
		}
		seen[named] = true
	}
	for _, a := range o.Admission {
		check("Options.Admission", a.Name)
	}
	for _, c := range o.Controllers {
		check("Options.Controllers", c.Name)
	}
	return errors.Join(errs...)
}

// runs are the functions that run the parts.
var runs = map[Part]func(context.Context, *appliance.Checked, *slog.Logger) error{
	"": appliance.Run, OnlyAPIServer: appliance.RunAPIServer, OnlyControllers: appliance.RunControllers,
	OnlyEtcd: appliance.RunEtcd,
}

// checkPart returns an error if the part does not take the other options.
func (o *Options) checkPart() error {
	served := len(o.Resources) + len(o.Admission) + len(o.Handlers) + len(o.TokenAuthenticators) +
		len(o.RequestAuthenticators) + len(o.Authorizers)
	switch {
	case runs[o.Part] == nil:
		return fmt.Errorf("Options.Part %q is not a part", o.Part)
	case o.Part == "":
	case len(o.Controllers) > 0:
		return fmt.Errorf("Options.Part %q runs no Options.Controllers: run them as clients of the API server", o.Part)
	case o.Part != OnlyAPIServer && (served > 0 || o.Middleware != nil || o.Manifests != nil ||
		o.Listener != nil || o.Listen || o.Audit != nil || o.Access != nil || o.OwnMetrics):
		return fmt.Errorf("Options.Part %q serves no API: leave out the listener and what is added to the API", o.Part)
	}
	return nil
}

// reservedPath reports whether the server serves the path itself.
func reservedPath(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "", "api", "apis", "openapi", "kube-hyper-mini", "healthz", "livez", "readyz", "metrics", "version",
		"debug", "openid", ".well-known":
		return true
	}
	return false
}

// Run is [New] and [ControlPlane.Run].
func Run(ctx context.Context, options Options, ready func(*ControlPlane)) error {
	c, err := New(options)
	if err != nil {
		return err
	}
	return c.Run(ctx, ready)
}

// Run starts the control plane, runs it until ctx ends or a part fails, and stops it. It calls
// ready when it is ready, unless ready is nil. It returns nil after an orderly stop.
func (c *ControlPlane) Run(ctx context.Context, ready func(*ControlPlane)) error {
	if err := c.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return c.Err()
		}
		return err
	}
	if ready != nil {
		ready(c)
	}
	select {
	case <-ctx.Done():
	case <-c.done:
	}
	return c.Stop(context.WithoutCancel(ctx))
}

// Start starts the control plane and returns when it is ready: an authenticated write works,
// and the controllers run. After an error, or if ctx ends first, everything has been stopped.
// ctx bounds the start only. It may be called once.
func (c *ControlPlane) Start(ctx context.Context) error {
	c.mu.Lock()
	if c.started {
		c.mu.Unlock()
		return errors.New("start the control plane: it was started or stopped before; make another one with New")
	}
	c.started = true
	running, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.mu.Unlock()
	if err := c.useDirectory(); err != nil {
		stop()
		c.end(context.Background(), err)
		return c.err
	}
	go func() {
		err := runs[c.options.Part](running, c.checked, c.options.Log)
		if err == nil && running.Err() == nil {
			err = errors.New("the control plane stopped by itself")
		}
		stop()
		c.end(running, err)
	}()
	select {
	case r := <-c.ready:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.running = r
		return nil
	case <-c.done:
		if c.err == nil {
			return errors.New("start the control plane: Stop was called")
		}
		return c.err
	case <-ctx.Done():
		stop()
		<-c.done
		return fmt.Errorf("start the control plane: %w", errors.Join(context.Cause(ctx), c.err))
	}
}

// useDirectory makes the temporary directory, if the program has named none.
func (c *ControlPlane) useDirectory() error {
	if c.isTemporary() {
		dir, err := temporary.Make()
		if err != nil {
			return fmt.Errorf("start the control plane: %w", err)
		}
		c.temporary = dir
		c.checked.Relocate(dir.Data())
	}
	if c.isTemporary() || c.options.Ephemeral {
		datadir.DisableSync(c.checked.DataDir())
	}
	return nil
}

// isTemporary reports whether the data does not outlive Stop.
func (c *ControlPlane) isTemporary() bool {
	return c.options.Dir == "" && (c.options.Config == nil || c.options.Config.DataDir == "")
}

// end closes the listener, removes the temporary directory, records the result and lets go of
// the server.
func (c *ControlPlane) end(ctx context.Context, err error) {
	err = errors.Join(err, c.closeListener())
	if c.temporary != "" {
		err = errors.Join(err, c.temporary.Remove(context.WithoutCancel(ctx)))
	}
	datadir.EnableSync(c.checked.DataDir())
	c.mu.Lock()
	c.running.Client, c.running.Objects, c.running.Compact, c.checked = nil, nil, nil, nil
	c.mu.Unlock()
	c.err = err
	close(c.done)
}

// Stop stops the controllers, the API and etcd, in this order, and returns when all has
// stopped: the error of [ControlPlane.Err], or that of ctx if it ends first; the stop then goes
// on. After Stop, Start returns an error. Stop may be called again.
func (c *ControlPlane) Stop(ctx context.Context) error {
	c.mu.Lock()
	if !c.started {
		c.started = true
		c.stop = func() {}
		c.err = c.closeListener()
		close(c.done)
	}
	stop := c.stop
	c.mu.Unlock()
	stop()
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return fmt.Errorf("stop the control plane: %w", context.Cause(ctx))
	}
}

// Done is closed when everything has stopped, after Stop or because a part has failed.
func (c *ControlPlane) Done() <-chan struct{} { return c.done }

// Err returns why the control plane has stopped, once Done is closed: nil after Stop.
func (c *ControlPlane) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// RESTConfig returns a client configuration for the administrator (admin, system:masters).
// Requests call the server in the process, without a socket; those that change the protocol
// (exec, port-forward) need a listener. Requests fail unless Start has returned nil.
func (c *ControlPlane) RESTConfig() *rest.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running.Client == nil {
		return refusing("the control plane does not run: call RESTConfig after Start")
	}
	return apiserver.AsAdmin(c.running.Client)
}

// refusing returns a configuration whose requests fail with the error.
func refusing(text string) *rest.Config { return &rest.Config{Transport: refused{errors.New(text)}} }

type refused struct{ error }

// RoundTrip implements [http.RoundTripper].
func (r refused) RoundTrip(*http.Request) (*http.Response, error) { return nil, r.error }

// RESTConfigFor is RESTConfig for another user with these groups and system:authenticated: RBAC
// decides what it may do. The audit log shows an impersonation. Requests without a user fail.
func (c *ControlPlane) RESTConfigFor(user string, groups ...string) *rest.Config {
	if user == "" { // client-go would leave out the impersonation: the rest is an administrator
		return refusing("RESTConfigFor got no user: name one, or call RESTConfig for the administrator")
	}
	client := c.RESTConfig()
	client.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return client
}

// Objects returns the number of objects in the store. It fails unless Start has returned nil.
func (c *ControlPlane) Objects(ctx context.Context) (int64, error) {
	c.mu.Lock()
	count := c.running.Objects
	c.mu.Unlock()
	if count == nil {
		return 0, errors.New("count the objects: the control plane does not run, or has no store of its own")
	}
	return count(ctx)
}

// Compact removes the history of the objects up to a revision, unless that is 0, and returns the
// current one. A server that runs for ten minutes does so itself. It fails unless Start has
// returned nil.
func (c *ControlPlane) Compact(ctx context.Context, revision int64) (current int64, err error) {
	c.mu.Lock()
	compact := c.running.Compact
	c.mu.Unlock()
	if compact == nil {
		return 0, errors.New("compact the history: the control plane does not run, or has no store of its own")
	}
	return compact(ctx, revision)
}

// URL returns the URL of the API for clients in other processes; empty without a listener.
func (c *ControlPlane) URL() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running.Server
}

// Kubeconfig returns the path of the administrator's kubeconfig for clients in other processes;
// empty without a listener.
func (c *ControlPlane) Kubeconfig() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running.Server == "" {
		return ""
	}
	return c.running.Kubeconfig
}
