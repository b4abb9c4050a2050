package appliance

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/internal/apiserver"
	"kube-hyper-mini.io/kube-hyper-mini/internal/lifecycle"
	"kube-hyper-mini.io/kube-hyper-mini/internal/manifests"
)

// Extension is what a program adds to its server, see [controlplane.Options]. The zero value
// adds nothing.
type Extension struct {
	API      apiserver.Extensions
	Listener net.Listener // nil for none
	// InProcess means that the API is reachable in the process only: no port is taken, and
	// no kubeconfig is written.
	InProcess    bool
	Controllers  []Controller
	WhileServing func(ctx context.Context, ready func()) error // nil for none
	// Manifests are applied before the server is ready; nil for none.
	Manifests   fs.FS
	NewIdentity bool
	Ephemeral   bool
	OwnsProcess bool
	RootCAFile  string // empty for that of the identity
	// WhenReady is called once, when the server is ready, unless it is nil. It returns at once.
	WhenReady func(Running)
}

// Controller is a controller of the program.
type Controller struct {
	Name string
	// Run returns when ctx has ended. An error ends the server.
	Run func(ctx context.Context, client *rest.Config) error
}

// Extend sets what the program adds.
func (c *Checked) Extend(extension Extension) { c.extension = extension }

// listen takes the port, unless the program has its own or none.
func (p *process) listen() (*apiserver.Listener, error) {
	limits, extension := p.config.Limits, p.extension
	switch {
	case extension.InProcess:
		return apiserver.NoListener(), nil
	case extension.Listener != nil:
		return apiserver.NewListener(extension.Listener, limits, p.log), nil
	}
	return apiserver.Listen(&p.config.Serving, limits, p.log)
}

// startExtension applies the manifests and starts the controllers of the program.
func (s *server) startExtension(ctx context.Context) error {
	if files := s.extension.Manifests; files != nil {
		if err := s.applyManifests(ctx, files); err != nil {
			return fmt.Errorf("apply the program's manifests: %w", err)
		}
	}
	for _, controller := range s.extension.Controllers {
		err := s.supervisor.Start(ctx, lifecycle.Part{Name: "controller " + controller.Name,
			Run: func(ctx context.Context, ready func()) error {
				ready()
				return s.runController(ctx, controller)
			}})
		if err != nil {
			return err
		}
	}
	return nil
}

// unavailableTimeout bounds how long the program's manifests are refused as unavailable.
const unavailableTimeout = 20 * time.Second

// applyManifests applies the program's manifests. Policies that mutate refuse what they match
// until they have read the OpenAPI documents, some milliseconds after these are built.
func (s *server) applyManifests(ctx context.Context, files fs.FS) error {
	s.api.BuildOpenAPI() // see startManifests
	applier, err := manifests.New(manifests.Config{Client: s.api.Loopback(), Log: s.log})
	if err != nil {
		return err
	}
	// The error of the last attempt says more than that of the wait.
	_ = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, unavailableTimeout, true,
		func(context.Context) (bool, error) { // the timeout bounds no attempt
			err = apiserver.Call(func() error { return applier.ApplyFS(ctx, files) })
			return !apierrors.IsServiceUnavailable(err), nil
		})
	return err
}

// runController runs the controller until ctx ends. While another server leads, it does not
// run.
func (s *server) runController(ctx context.Context, controller Controller) error {
	for ctx.Err() == nil {
		term := ctx
		if s.store.Shared() {
			leading, err := s.controllers.Lead(ctx)
			if err != nil {
				break // a stop
			}
			term = leading
		}
		err := apiserver.Call(func() error { return controller.Run(term, apiserver.AsAdmin(s.api.Loopback())) })
		if err != nil && term.Err() == nil {
			return fmt.Errorf("the controller %s failed: %w", controller.Name, err)
		}
		<-term.Done()
	}
	return nil
}
