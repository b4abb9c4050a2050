package appliance

import (
	"context"

	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/apiserver"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance/parts"
	"kube-hyper-mini.io/kube-hyper-mini/internal/controllers"
)

// Checked is a configuration that has passed all checks that are possible without
// starting anything.
type Checked struct {
	config    *config.ServerConfiguration
	options   *apiserver.Options
	extension Extension
}

// Running is a server that is ready.
type Running struct {
	// Server is the URL of the API.
	Server string
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string
	// Client calls the API in this process, with all rights.
	Client *rest.Config
	// Objects counts the stored objects.
	Objects func(context.Context) (int64, error)
	// Compact removes the history of the objects up to a revision, and returns the current one.
	Compact func(ctx context.Context, revision int64) (current int64, err error)
}

// DataDir is the path of the data directory.
func (c *Checked) DataDir() string { return c.config.DataDir }

// Relocate moves the server to another data directory. Call it before [Run].
func (c *Checked) Relocate(dir string) { c.config.Relocate(dir) }

// Check completes and validates the configuration with the checks of every part. It
// writes nothing. Feature gates are process globals: see [apiserver.SetFeatureGates].
func Check(cfg *config.ServerConfiguration) (*Checked, error) {
	if err := cfg.Complete(); err != nil {
		return nil, err
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if _, err := controllers.Select(cfg.ControllerManager.Controllers); err != nil {
		return nil, &config.FieldError{Path: "controllerManager.controllers", Message: err.Error()}
	}
	if err := apiserver.SetFeatureGates(cfg.APIServer.FeatureGates); err != nil { // after what refuses others
		return nil, err
	}
	options, err := apiserver.NewOptions(parts.APIServer(cfg))
	if err != nil {
		return nil, err
	}
	return &Checked{config: cfg, options: options}, nil
}
