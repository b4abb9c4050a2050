package appliance

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/controllers"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
)

// RunAPIServer is Run without the controllers, which another process runs
// ([RunControllers]). The configuration names an external etcd.
func RunAPIServer(ctx context.Context, checked *Checked, log *slog.Logger) error {
	if len(checked.config.Etcd.External.Endpoints) == 0 {
		return errNeeds("etcd.external.endpoints", "names no etcd, and the API server alone has none of its own: set it, or run `kube-hyper-mini server`")
	}
	return runServer(ctx, checked, log, false)
}

// RunEtcd runs the etcd member alone, on a listener that only holders of a
// certificate of its own authority can use, until ctx ends or it dies.
func RunEtcd(ctx context.Context, checked *Checked, log *slog.Logger) error {
	cfg := checked.config
	listen := cfg.Etcd.Embedded.Listen
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return errNeeds("etcd.embedded.listen", "%q is not an address to serve on: write HOST:PORT, as 127.0.0.1:2379", listen)
	}
	p, err := begin(cfg, log)
	if err != nil {
		return err
	}
	defer p.end()
	p.announce("kube-hyper-mini etcd")
	identity := &identity{config: cfg, dir: p.dir, etcdHost: host, newIdentity: checked.newIdentity, log: log}
	member := &embeddedEtcd{config: cfg.Etcd.Embedded, data: p.dir, log: log, level: cfg.Logging.Verbosity}
	start := func(ctx context.Context) error {
		if err := p.group.start(ctx, identity); err != nil {
			return err
		}
		member.listener = &etcd.Listener{
			Address:  listen,
			CertFile: identity.store.Cert(pki.EtcdServer), KeyFile: identity.store.Key(pki.EtcdServer),
			ClientCAFile: identity.store.Cert(pki.EtcdCA),
		}
		if err := p.group.start(ctx, member); err != nil {
			return err
		}
		return member.waitReady(ctx)
	}
	serve := func(ctx context.Context) error {
		log.Info("ready", "endpoint", "https://"+listen, "took", p.took())
		log.Info("API servers need the identity: kube-hyper-mini bundle create --data-dir " + p.dir.Path() + " FILE")
		p.ready()
		return p.whileServing(ctx, func(ctx context.Context) error {
			if _, err := member.member.Client().Get(ctx, "health"); err != nil && !member.keeper.Defragmenting() {
				return err
			}
			return nil
		})
	}
	return p.live(ctx, start, serve, func() {})
}

// whileServing feeds the watchdog and runs background beside it until ctx ends
// or a component dies.
func (p *process) whileServing(ctx context.Context, healthy func(context.Context) error, background ...func(context.Context)) error {
	serving, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		p.notify.feed(serving, healthy, func(err error) { p.log.Warn("not telling the watchdog that all is well", "error", err) })
	})
	running.Go(func() { followLoad(serving, p.log) })
	for _, run := range background {
		running.Go(func() { run(serving) })
	}
	defer func() {
		stop()
		running.Wait()
	}()
	return p.wait(ctx)
}

// RunControllers runs the controllers alone, against the API servers at the
// configured address, until ctx ends or the lease on them is lost. The
// identity in the data directory is that of the API servers.
func RunControllers(ctx context.Context, checked *Checked, log *slog.Logger) error {
	cfg := checked.config
	if cfg.ControllerManager.Server == "" {
		return errNeeds("controllerManager.server", "names no API server, and the controllers alone have none beside them: set it, as https://127.0.0.1:6443, or run `kube-hyper-mini server`")
	}
	p, err := begin(cfg, log)
	if err != nil {
		return err
	}
	defer p.end()
	p.announce("kube-hyper-mini controllers")
	identity := &identity{config: cfg, dir: p.dir, newIdentity: checked.newIdentity, log: log}
	manager := &controllerManager{log: log}
	var client kubernetes.Interface
	start := func(ctx context.Context) error {
		if err := p.group.start(ctx, identity); err != nil {
			return err
		}
		away := awayFromTheServer{config: cfg, store: identity.store, log: log}
		manager.workplace = away
		var err error
		if client, err = kubernetes.NewForConfig(away.client()); err != nil {
			return fmt.Errorf("make the client: %w", err)
		}
		return p.group.start(ctx, manager)
	}
	serve := func(ctx context.Context) error {
		log.Info("ready", "server", cfg.ControllerManager.Server, "took", p.took())
		p.ready()
		return p.whileServing(ctx, func(ctx context.Context) error {
			_, err := client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, controllersLease, metav1.GetOptions{})
			return err
		})
	}
	return p.live(ctx, start, serve, func() {})
}

// awayFromTheServer is the workplace of controllers in a process of their own.
type awayFromTheServer struct {
	config *config.ServerConfiguration
	store  *pki.Store
	log    *slog.Logger
}

// servers: there may be several API servers behind the address, and another
// process with controllers.
func (a awayFromTheServer) servers() int { return several }

func (a awayFromTheServer) client() *rest.Config {
	return &rest.Config{
		Host: a.config.ControllerManager.Server,
		TLSClientConfig: rest.TLSClientConfig{
			CAFile: a.store.ServerCA(), CertFile: a.store.Cert(pki.Admin), KeyFile: a.store.Key(pki.Admin),
		},
		UserAgent: rest.DefaultKubernetesUserAgent(),
		QPS:       -1, // flow control is the server's job
	}
}

func (a awayFromTheServer) prepare(ctx context.Context) (controllers.Config, func(), error) {
	client, err := kubernetes.NewForConfig(controllers.AsManager(a.client()))
	if err != nil {
		return controllers.Config{}, nil, fmt.Errorf("make the client: %w", err)
	}
	types, err := controllers.NewRemoteTypes(ctx, a.client())
	if err != nil {
		return controllers.Config{}, nil, err
	}
	return controllers.Config{
		Client:    a.client(),
		Informers: informers.NewSharedInformerFactory(client, 0),
		Types:     types,
		Files:     controllerFiles(a.store),
		Selection: a.config.ControllerManager.Controllers,
		Log:       a.log,
	}, types.Close, nil
}
