package controllers

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sort"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
)

// Config is what the controllers work with.
type Config struct {
	// Client reaches the API server, has full rights, and no rate limit. The
	// controllers impersonate kube-controller-manager's service accounts with it.
	Client *rest.Config
	// Manager says that Client connects as the user system:kube-controller-manager,
	// which may impersonate the service accounts, and not with full rights.
	Manager bool
	// FullRights has the controllers use the rights of Client themselves: RBAC,
	// which knows their service accounts, does not authorize there.
	FullRights bool
	// Informers are shared with the API server; nil if that is in another process.
	Informers informers.SharedInformerFactory
	// Types tells which types are served, and when that changes; nil if the API
	// server is in another process, which is asked then.
	Types Types
	// Content tells which types have objects in a namespace; nil if unknown.
	Content Content
	// Population tells which types have objects at all. The controllers run it.
	// If it is nil, garbage collector and quota monitor all types.
	Population Population
	// Files are the keys and certificates that some controllers use.
	Files Files
	// Elect says that other processes may run controllers on the same store, of
	// which one does at a time.
	Elect bool
	// Alone says whether one API server only uses the store at this moment; nil
	// if that is unknown. A server that comes later reads everything anew.
	Alone func(ctx context.Context) (bool, error)
	// AfterWrites calls f once the requests to the API server of this process
	// have ended that are in flight now and may create objects in the namespace.
	// nil if the API server is in another process.
	AfterWrites func(namespace string, f func())
	// Selection is the configuration's list (see [Select]).
	Selection []string
	Log       *slog.Logger

	informersStop <-chan struct{} // ends Informers; nil means with the controllers
}

// Types is the API server's account of what it serves.
type Types interface {
	// Serves says whether a built-in resource is switched on.
	Serves(schema.GroupVersionResource) bool
	// Remote says whether another server serves the group version.
	Remote(schema.GroupVersion) bool
	// OnChange calls f, from any goroutine, after types may have changed, until
	// remove is called. A type of this process that a client has just created is
	// known here before the client gets its answer.
	OnChange(f func()) (remove func())
}

// Content knows what is stored, without asking every type.
type Content interface {
	// HasObjects says whether the resource has objects in the namespace.
	HasObjects(ctx context.Context, resource schema.GroupResource, namespace string) (bool, error)
}

// Files are paths of PEM files.
type Files struct {
	// ServerCA has the authorities that are published to clients in each namespace.
	ServerCA string
	// ClientCA, one certificate, and its key sign client certificates.
	ClientCA, ClientCAKey string
	// ServiceAccountKey signs tokens that are kept in secrets.
	ServiceAccountKey string
	// Changed returns a channel that is closed when the files change next; nil
	// for files that do not.
	Changed func() <-chan struct{}
}

// NewFiles returns the files of store.
func NewFiles(store *pki.Store) Files {
	return Files{
		ServerCA:          store.ServerCA(),
		ClientCA:          store.SigningCert(pki.ClientCA),
		ClientCAKey:       store.Key(pki.ClientCA),
		ServiceAccountKey: store.Key(pki.ServiceAccount),
		Changed:           store.Changed,
	}
}

func (f Files) changed() <-chan struct{} {
	if f.Changed == nil {
		return nil
	}
	return f.Changed()
}

// controller is an entry of the table.
type controller struct {
	name string
	// off means that it must be asked for by name.
	off bool
	// needs are the resources without which it has nothing to do.
	needs []schema.GroupVersionResource
	// build prepares the controller. The function it returns runs until its
	// context ends. A nil function means that it has nothing to do, and the
	// reason says why.
	build func(ctx context.Context, env *environment) (run func(context.Context), reason string, err error)
}

// run builds and starts the selected controllers, calls started with the names of
// those that run when the informers that they share have synced, and returns when
// ctx has ended and the controllers have.
func run(ctx context.Context, cfg Config, started func(names []string)) error {
	selected, err := Select(cfg.Selection)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	env, err := newEnvironment(ctx, cfg, selected)
	if err != nil {
		return err
	}
	defer env.end()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
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
	return nil
}

// build makes the selected controllers, and returns the names and the functions
// of those that have something to do.
func build(ctx context.Context, cfg Config, env *environment, selected []string) (names []string, runs []func(context.Context), err error) {
	for _, c := range table {
		if !slices.Contains(selected, c.name) {
			continue
		}
		if missing := notServed(c.needs, cfg.Types); missing != "" {
			cfg.Log.Debug("controller has nothing to do", "controller", c.name, "because", missing+" is not served")
			continue
		}
		run, reason, err := c.build(ctx, env)
		if err != nil {
			return nil, nil, fmt.Errorf("start the %s: %w", c.name, err)
		}
		if run == nil {
			cfg.Log.Info("controller does not run", "controller", c.name, "because", reason)
			continue
		}
		names, runs = append(names, c.name), append(runs, run)
	}
	return names, runs, nil
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
		return nil, fmt.Errorf("no such controller: %s; there are: %s", strings.Join(unknown, ", "), strings.Join(Names(), ", "))
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

// Names lists every controller that there is.
func Names() []string {
	list := make([]string, 0, len(table))
	for _, c := range table {
		list = append(list, c.name)
	}
	sort.Strings(list)
	return list
}
