package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// The names of the two sides.
const (
	ours   = "ours"
	theirs = "theirs"
)

// side is one of the two that are compared.
type side struct {
	name string
	// start runs the side on a directory that is new or that an earlier start
	// has left, and returns when it serves and its controllers work.
	start func(ctx context.Context, dir string) (*cluster, error)
}

// cluster is a running side.
type cluster struct {
	dir, kubeconfig string
	// stages are the processes in the order in which they stop: those of a
	// stage are asked together when those of the stage before have ended.
	stages [][]*process
	// metrics are the URLs of the processes' own metrics.
	metrics []string
	config  *rest.Config
	// firstWrite and controllers are how long after the start an
	// authenticated write worked, and a controller had done its work.
	firstWrite, controllers time.Duration
}

const (
	poll         = 5 * time.Millisecond
	startTimeout = 2 * time.Minute
)

// started runs a side on a new directory and hands it to use.
func (b *bench) started(ctx context.Context, s side, use func(*cluster) error) (err error) {
	dir, err := b.newDir(s.name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.remove(dir)) }()
	c, err := s.start(ctx, dir)
	if err != nil {
		return err
	}
	return errors.Join(use(c), c.stop())
}

// stop ends all processes in order and waits.
func (c *cluster) stop() error {
	var errs []error
	for _, stage := range c.stages {
		for _, p := range stage {
			p.ask()
		}
		for _, p := range stage {
			errs = append(errs, p.wait())
		}
	}
	c.stages = nil
	return errors.Join(errs...)
}

// alive returns an error when a process has ended by itself.
func (c *cluster) alive() error {
	for _, stage := range c.stages {
		for _, p := range stage {
			if err := p.running(); err != nil {
				return err
			}
		}
	}
	return nil
}

// usage is that of all processes.
func (c *cluster) usage() (usage, error) {
	var sum usage
	for _, stage := range c.stages {
		for _, p := range stage {
			u, err := p.usage()
			if err != nil {
				return sum, err
			}
			sum = sum.plus(u)
		}
	}
	return sum, nil
}

// awaitWrite returns when an authenticated write has worked. The kubeconfig
// may come into being meanwhile.
func (c *cluster) awaitWrite(ctx context.Context, began time.Time) error {
	var client *api
	err := c.await(ctx, "the first write", func(ctx context.Context) error {
		if client == nil {
			config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
			if err != nil {
				return err
			}
			c.config = config
			if client, err = newAPI(config); err != nil {
				return err
			}
		}
		_, err := client.do(ctx, http.MethodPost, configMapsPath("default"), configMap("", "first-write-", nil, 0))
		return err
	})
	c.firstWrite = time.Since(began)
	return err
}

// awaitReady returns when /readyz of the API server succeeds.
func (c *cluster) awaitReady(ctx context.Context) error {
	client, err := newAPI(c.config)
	if err != nil {
		return err
	}
	defer client.close()
	return c.await(ctx, "readiness", func(ctx context.Context) error {
		return client.discard(ctx, http.MethodGet, "/readyz", nil)
	})
}

// awaitControllers returns when controllers have put into a new namespace what
// every namespace has.
func (c *cluster) awaitControllers(ctx context.Context, began time.Time) error {
	client, err := newAPI(c.config)
	if err != nil {
		return err
	}
	defer client.close()
	f := fixture{c, client}
	if err := f.namespace(ctx, fmt.Sprintf("with-defaults-%d", began.UnixNano())); err != nil {
		return err
	}
	c.controllers = time.Since(began)
	return nil
}

// hasDefaults returns nil when a namespace has its service account and root CA.
func hasDefaults(ctx context.Context, client *api, namespace string) error {
	for _, path := range []string{
		"/api/v1/namespaces/" + namespace + "/serviceaccounts/default",
		configMapsPath(namespace) + "/kube-root-ca.crt",
	} {
		if _, err := client.do(ctx, http.MethodGet, path, nil); err != nil {
			return err
		}
	}
	return nil
}

// await calls check until it returns nil, a process ends or time is up.
func (c *cluster) await(ctx context.Context, what string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if dead := c.alive(); dead != nil {
			return fmt.Errorf("wait for %s: %w", what, dead)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; last answer: %w", what, ctx.Err(), err)
		case <-ticker.C:
		}
	}
}

// freePort finds a TCP port on loopback that nothing listens on.
func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err = errors.Join(err, listener.Close()); err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return port, nil
}
