package appliance

import (
	"context"
	"log/slog"
	"net"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance/parts"
	"kube-hyper-mini.io/kube-hyper-mini/internal/controllers"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/datastore"
	"kube-hyper-mini.io/kube-hyper-mini/internal/identity"
	"kube-hyper-mini.io/kube-hyper-mini/internal/lifecycle"
	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
)

// RunAPIServer is Run without the controllers, which another process runs
// ([RunControllers]). The configuration names an external etcd.
func RunAPIServer(ctx context.Context, checked *Checked, log *slog.Logger) error {
	if len(checked.config.Etcd.External.Endpoints) == 0 {
		return config.NewFieldError("etcd.external.endpoints",
			"is not set, and `kube-hyper-mini apiserver` has no embedded etcd: set it, or run `kube-hyper-mini server`")
	}
	return runServer(ctx, checked, log, "kube-hyper-mini apiserver", nil)
}

// RunEtcd runs the etcd member alone until ctx ends or it fails. Its listener
// accepts only clients with a certificate of its own authority.
func RunEtcd(ctx context.Context, checked *Checked, log *slog.Logger) error {
	cfg := checked.config
	listen := cfg.Etcd.Embedded.Listen
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return config.NewFieldError("etcd.embedded.listen",
			"%q is not an address: write HOST:PORT, for example 127.0.0.1:2379", listen)
	}
	p, err := begin(checked, log)
	if err != nil {
		return err
	}
	defer p.end()
	p.announce("kube-hyper-mini etcd")
	keys := parts.Identity(cfg, p.dir, p.extension.NewIdentity, log)
	keys.EtcdHost = host
	ident := identity.New(keys)
	member := datastore.NewEmbedded(parts.Datastore(cfg, p.dir, log))
	return p.run(ctx, hooks{
		start: func(ctx context.Context) error {
			if err := p.supervisor.Start(ctx, lifecycle.Part{Name: "identity", Run: ident.Run}); err != nil {
				return err
			}
			member.Listener = &etcd.Listener{
				Address:  listen,
				CertFile: ident.Certificates().Cert(pki.EtcdServer), KeyFile: ident.Certificates().Key(pki.EtcdServer),
				ClientCAFile: ident.Certificates().Cert(pki.EtcdCA),
			}
			if err := p.backupBeforeUpgrade(ctx); err != nil {
				return err
			}
			if err := p.supervisor.Start(ctx, lifecycle.Part{Name: "etcd", Run: member.Run}); err != nil {
				return err
			}
			if err := p.dir.WriteStamp(p.stamp); err != nil { // API servers write after the election
				return err
			}
			return member.WaitReady(ctx)
		},
		ready: func(context.Context) {
			log.Info("ready", "endpoint", "https://"+listen, "took", p.took())
			log.Info("API servers need the identity: copy pki and encryption to their data directories", "from", p.dir.Path())
		},
		healthy: member.Healthy,
	})
}

// RunControllers runs the controllers alone, as clients of the API servers at
// controllerManager.server, until ctx ends. The data directory has the identity of
// the API servers.
func RunControllers(ctx context.Context, checked *Checked, log *slog.Logger) error {
	cfg := checked.config
	if cfg.ControllerManager.Server == "" {
		return config.NewFieldError("controllerManager.server", "is not set, and `kube-hyper-mini controllers` has no API "+
			"server in its process: set it, for example to https://127.0.0.1:6443, or run `kube-hyper-mini server`")
	}
	p, err := begin(checked, log)
	if err != nil {
		return err
	}
	defer p.end()
	p.announce("kube-hyper-mini controllers")
	ident := identity.New(parts.Identity(cfg, p.dir, p.extension.NewIdentity, log))
	return p.run(ctx, hooks{
		start: func(ctx context.Context) error {
			if err := p.supervisor.Start(ctx, lifecycle.Part{Name: "identity", Run: ident.Run}); err != nil {
				return err
			}
			return p.supervisor.Start(ctx, lifecycle.Part{Name: "controllers",
				Run: func(ctx context.Context, ready func()) error {
					return new(controllers.Runner).Run(ctx, controllers.Config{
						Client: ident.ControllerClient(cfg.ControllerManager.Server), Manager: true,
						Files: controllers.NewFiles(ident.Certificates()),
						Elect: true, LockID: p.dir.LockID(), Selection: cfg.ControllerManager.Controllers, Log: log,
					}, ready)
				}})
		},
		ready: func(context.Context) { log.Info("ready", "server", cfg.ControllerManager.Server, "took", p.took()) },
		// Controllers without an API server wait for it: a restart does not help.
		healthy: func(context.Context) error { return nil },
	})
}
