package appliance

import (
	"context"
	"log/slog"

	"kube-hyper-mini.io/kube-hyper-mini/internal/controllers"
	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
)

// controllerManager runs the controllers.
type controllerManager struct {
	api       *apiServers
	selection []string
	log       *slog.Logger

	manager *controllers.Manager
}

// Name implements [Component].
func (c *controllerManager) Name() string { return "controllers" }

// Start implements [Component].
func (c *controllerManager) Start(ctx context.Context) error {
	store := c.api.identity.store
	manager, err := controllers.Start(ctx, controllers.Config{
		Client:    c.api.server.Loopback(),
		Informers: c.api.server.Informers(),
		Types:     c.api.server,
		Content:   c.api.storage,
		Files: controllers.Files{
			ServerCA:          store.Cert(pki.ServerCA),
			ClientCA:          store.Cert(pki.ClientCA),
			ClientCAKey:       store.Key(pki.ClientCA),
			ServiceAccountKey: store.Key(pki.ServiceAccount),
		},
		Servers:   c.api.servers,
		Selection: c.selection,
		Log:       c.log,
	})
	if err != nil {
		return err
	}
	c.manager = manager
	return nil
}

// Died implements [Component]: a controller retries what fails.
func (c *controllerManager) Died() <-chan error { return nil }

// Stop implements [Component].
func (c *controllerManager) Stop(ctx context.Context) error { return c.manager.Stop(ctx) }
