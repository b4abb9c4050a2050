package controllers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sort"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
)

// Config configures the controllers.
type Config struct {
	// Client connects with the API server as system:masters, without a rate limit.
	// The controllers impersonate kube-controller-manager's service accounts with it.
	Client *rest.Config
	// Manager means that Client connects as the user system:kube-controller-manager,
	// which may impersonate the service accounts.
	Manager bool
	// FullRights makes the controllers use Client without impersonation: without RBAC
	// their service accounts have no rights.
	FullRights bool
	// Informers are shared with the API server; nil if that is in another process.
	Informers informers.SharedInformerFactory
	// Types has the served types; nil if the API server is in another process: the
	// controllers then query its discovery.
	Types Types
	// HasObjects reports whether the store has objects of a type in the namespace; nil if unknown.
	HasObjects func(ctx context.Context, resource schema.GroupResource, namespace string) (bool, error)
	// Population reports which types have objects. If it is nil, garbage collector and
	// quota monitor all types.
	Population Population
	// Files are the keys and certificates that some controllers use.
	Files Files
	// Elect enables leader election: other processes may run controllers on the same
	// store.
	Elect bool
	// LockID names a lock that this process holds. A process that held it before has ended, so this
	// one takes over its lease at once. Without LockID it waits until the lease has expired.
	LockID string
	// Alone reports whether only one API server uses the store at this moment; nil
	// if that is unknown. A server that starts later reads everything first.
	Alone func(ctx context.Context) (bool, error)
	// AfterWrites calls f when the requests in flight that may create objects in the
	// namespace have ended. It is nil if the API server is in another process.
	AfterWrites func(namespace string, f func())
	// Selection is controllerManager.controllers of the configuration, see [Select].
	Selection []string
	Log       *slog.Logger

	informersStop <-chan struct{} // stops Informers; if nil, they stop with the controllers
}

// Types has the types that the API server serves.
type Types interface {
	// Serves reports whether a built-in resource is enabled.
	Serves(schema.GroupVersionResource) bool
	// Remote reports whether an aggregated API server serves the group version.
	Remote(schema.GroupVersion) bool
	// OnChange calls f, from any goroutine, when types may have changed, until
	// remove is called. For a CRD that a client creates, it calls f before the client
	// gets the response.
	OnChange(f func()) (remove func())
	// Definitions returns the names of all CRDs.
	Definitions() []string
}

// Files are paths of PEM files.
type Files struct {
	// ServerCA has the authorities that are published to clients in each namespace.
	ServerCA string
	// ClientSigner has one certificate and its key, which sign client certificates. It
	// does not exist where the key is kept elsewhere.
	ClientSigner string
	// ServiceAccountKey signs tokens that are kept in secrets.
	ServiceAccountKey string
	// Changed returns a channel that is closed at the next change of a file.
	Changed func() <-chan struct{}
}

// NewFiles returns the files of store.
func NewFiles(store *pki.Store) Files {
	return Files{
		ServerCA:          store.ServerCA(),
		ClientSigner:      store.SigningPair(pki.ClientCA),
		ServiceAccountKey: store.Key(pki.ServiceAccount),
		Changed:           store.Changed,
	}
}

// controller is an entry of the table.
type controller struct {
	name string
	// off means that the controller runs only if it is selected by name.
	off bool
	// needs are the resources that must be served.
	needs []schema.GroupVersionResource
	// whenUsed means that the controller starts with the first object of the first of them: it
	// does nothing without one.
	whenUsed bool
	// account is the service account of the controller; without one it is the user
	// system:kube-controller-manager.
	account string
	// check returns why the controller does not run; it may be nil.
	check func(*environment) notRun
	// build makes the controller, with a client of the account.
	build func(ctx context.Context, env *environment, client kubernetes.Interface) (runFunc, error)
}

// runFunc runs a controller until its context ends.
type runFunc = func(context.Context)

// notRun is the reason why a controller does not run; empty if it runs.
type notRun = string

// run builds and starts the selected controllers. When their shared informers have
// synced, it calls started with the names of the controllers that run. It returns when
// ctx has ended and all controllers have stopped, or with [errRestart].
func run(ctx context.Context, cfg Config, started func(names []string)) error {
	selected, err := Select(cfg.Selection)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	env, err := newEnvironment(ctx, cfg, selected, func() { cancel(errRestart) })
	if err != nil {
		return err
	}
	defer env.end()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
	names, runs, err := build(ctx, cfg, env, selected)
	if err != nil {
		return err
	}
	env.startInformers(ctx)
	for _, background := range env.background {
		running.Go(func() { background(ctx) })
	}
	env.fillCaches(ctx)
	for _, controller := range runs {
		running.Go(func() { controller(ctx) })
	}
	if err := env.waitForInformers(ctx); err != nil {
		return err
	}
	started(names)
	<-ctx.Done()
	if cause := context.Cause(ctx); errors.Is(cause, errRestart) {
		return cause
	}
	return nil
}

// build returns the names and the functions of the selected controllers that run.
func build(ctx context.Context, cfg Config, env *environment,
	selected []string) (names []string, runs []runFunc, err error) {
	for _, c := range table {
		if !slices.Contains(selected, c.name) {
			continue
		}
		if missing := notServed(c.needs, cfg.Types); missing != "" {
			cfg.Log.Debug("controller does not run", "controller", c.name, "because", missing+" is not served")
			continue
		}
		if c.check != nil {
			if reason := c.check(env); reason != "" {
				cfg.Log.Info("controller does not run", "controller", c.name, "because", reason)
				continue
			}
		}
		run := c.startWhenUsed(env)
		if !c.whenUsed || cfg.Population == nil {
			if run, err = c.start(ctx, env); err != nil {
				return nil, nil, err
			}
		}
		names, runs = append(names, c.name), append(runs, run)
	}
	return names, runs, nil
}

// start builds the controller.
func (c *controller) start(ctx context.Context, env *environment) (runFunc, error) {
	config := env.managerConfig(c.name)
	if c.account != "" {
		config = env.accountConfig(c.account)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make the client of the %s: %w", c.name, err)
	}
	run, err := c.build(ctx, env, client)
	if err != nil {
		return nil, fmt.Errorf("start the %s: %w", c.name, err)
	}
	return run, nil
}

// startWhenUsed returns a function that builds the controller, and runs it, when its resource has
// an object: a controller takes 0.2 MB with its watch, and most servers have no such object.
func (c *controller) startWhenUsed(env *environment) runFunc {
	return func(ctx context.Context) {
		if !env.awaitObject(ctx, c.needs[0].GroupResource()) {
			return
		}
		run, err := c.start(ctx, env)
		if err != nil {
			env.config.Log.Error("starting a controller failed; it is tried at the next start of the controllers", "error", err)
			return
		}
		env.monitorInformers.start(ctx.Done())
		run(ctx)
	}
}

func notServed(needs []schema.GroupVersionResource, types Types) string {
	for _, resource := range needs {
		if !types.Serves(resource) {
			return resource.GroupResource().String()
		}
	}
	return ""
}

// Select resolves a list in the syntax of kube-controller-manager's
// --controllers: "*" for all that are on by default, "name" and "-name".
func Select(list []string) ([]string, error) {
	var unknown []string
	for _, item := range list {
		name := strings.TrimPrefix(item, "-")
		if name != "*" && !slices.ContainsFunc(table, func(c controller) bool { return c.name == name }) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("no such controller: %s; the controllers are: %s", strings.Join(unknown, ", "),
			strings.Join(Names(), ", "))
	}
	var selected []string
	for _, c := range table {
		switch {
		case slices.Contains(list, "-"+c.name):
		case slices.Contains(list, c.name), !c.off && slices.Contains(list, "*"):
			selected = append(selected, c.name)
		}
	}
	return selected, nil
}

// Names lists all controllers.
func Names() []string {
	list := make([]string, 0, len(table))
	for _, c := range table {
		list = append(list, c.name)
	}
	sort.Strings(list)
	return list
}
