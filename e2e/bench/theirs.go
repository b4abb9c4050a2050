package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"
)

// genericControllers are those that kube-hyper-mini runs by default, by
// kube-controller-manager's names.
var genericControllers = []string{
	"serviceaccount-controller",
	"serviceaccount-token-controller",
	"root-ca-certificate-publisher-controller",
	"namespace-controller",
	"garbage-collector-controller",
	"resourcequota-controller",
	"clusterrole-aggregation-controller",
	"certificatesigningrequest-signing-controller",
	"certificatesigningrequest-approving-controller",
	"certificatesigningrequest-cleaner-controller",
	"validatingadmissionpolicy-status-controller",
	"storage-version-migrator-controller",
	"storageversion-garbage-collector-controller",
}

// theirPorts are where the three programs listen.
type theirPorts struct {
	etcd, peer, apiserver, controllers string
}

// startTheirs runs etcd, kube-apiserver and kube-controller-manager.
func (b *bench) startTheirs(ctx context.Context, dir string) (*cluster, error) {
	var ports theirPorts
	for _, port := range []*string{&ports.etcd, &ports.peer, &ports.apiserver, &ports.controllers} {
		var err error
		if *port, err = freePort(); err != nil {
			return nil, err
		}
	}
	pki := filepath.Join(dir, "pki")
	server := "https://127.0.0.1:" + ports.apiserver
	if err := writeIdentity(pki, server); err != nil {
		return nil, err
	}
	c := &cluster{
		dir:        dir,
		kubeconfig: filepath.Join(pki, "admin.kubeconfig"),
		metrics: []string{
			"http://127.0.0.1:" + ports.etcd + "/metrics",
			server + "/metrics",
			"https://127.0.0.1:" + ports.controllers + "/metrics",
		},
	}
	if err := b.launchTheirs(ctx, c, pki, ports); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

func (b *bench) launchTheirs(ctx context.Context, c *cluster, pki string, ports theirPorts) error {
	began := time.Now()
	etcd, err := startProcess(c.dir, "etcd", b.programs.etcd, b.etcdArgs(c.dir, ports)...)
	if err != nil {
		return err
	}
	c.stages = [][]*process{{etcd}}
	if err := c.await(ctx, "etcd", func(ctx context.Context) error {
		return healthy(ctx, "http://127.0.0.1:"+ports.etcd+"/health")
	}); err != nil {
		return err
	}
	apiserver, err := startProcess(c.dir, "kube-apiserver", b.programs.apiserver, b.apiserverArgs(pki, ports)...)
	if err != nil {
		return err
	}
	c.stages = [][]*process{{apiserver}, {etcd}}
	if err := c.awaitWrite(ctx, began); err != nil {
		return err
	}
	// Before that it may not read its own authentication settings, and ends.
	if err := c.awaitReady(ctx); err != nil {
		return err
	}
	controllers, err := startProcess(c.dir, "kube-controller-manager", b.programs.controllers, b.controllerArgs(pki, ports)...)
	if err != nil {
		return err
	}
	c.stages = [][]*process{{controllers, apiserver}, {etcd}}
	return c.awaitControllers(ctx, began)
}

func (b *bench) etcdArgs(dir string, ports theirPorts) []string {
	client, peer := "http://127.0.0.1:"+ports.etcd, "http://127.0.0.1:"+ports.peer
	args := []string{
		"--data-dir=" + filepath.Join(dir, "etcd"),
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		"--quota-backend-bytes=8589934592", // ours
	}
	if !b.fsync {
		args = append(args, "--unsafe-no-fsync")
	}
	return args
}

func (b *bench) apiserverArgs(pki string, ports theirPorts) []string {
	file := func(name string) string { return filepath.Join(pki, name) }
	args := []string{
		"--etcd-servers=http://127.0.0.1:" + ports.etcd,
		"--bind-address=127.0.0.1", "--secure-port=" + ports.apiserver,
		"--tls-cert-file=" + file("apiserver.crt"), "--tls-private-key-file=" + file("apiserver.key"),
		"--client-ca-file=" + file("ca.crt"),
		"--authorization-mode=RBAC",
		"--service-cluster-ip-range=10.96.0.0/16",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + file("service-account.key"),
		"--service-account-signing-key-file=" + file("service-account.key"),
		"--requestheader-client-ca-file=" + file("ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + file("front-proxy-client.crt"),
		"--proxy-client-key-file=" + file("front-proxy-client.key"),
	}
	if b.serve {
		return append(args, servedAPIServerArgs...)
	}
	return append(args, "--advertise-address=127.0.0.1")
}

func (b *bench) controllerArgs(pki string, ports theirPorts) []string {
	file := func(name string) string { return filepath.Join(pki, name) }
	kubeconfig := file("controllers.kubeconfig")
	controllers := genericControllers
	if b.serve {
		controllers = allControllers
	}
	return []string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", "--secure-port=" + ports.controllers,
		"--tls-cert-file=" + file("apiserver.crt"), "--tls-private-key-file=" + file("apiserver.key"),
		"--client-ca-file=" + file("ca.crt"),
		"--root-ca-file=" + file("ca.crt"),
		"--cluster-signing-cert-file=" + file("ca.crt"), "--cluster-signing-key-file=" + file("ca.key"),
		"--service-account-private-key-file=" + file("service-account.key"),
		// Its own role allows it little more than to become its controllers.
		"--use-service-account-credentials",
		"--controllers=" + strings.Join(controllers, ","),
	}
}

// healthy returns nil when a health endpoint without authentication returns 200.
func healthy(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	_ = response.Body.Close() // the status is enough
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("ask %s: %s", url, response.Status)
	}
	return nil
}
