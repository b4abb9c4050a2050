package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// startOurs runs kube-hyper-mini.
func (b *bench) startOurs(ctx context.Context, dir string) (*cluster, error) {
	return b.startOursWith(ctx, dir, "")
}

// startOursWith runs kube-hyper-mini with additional fields of the configuration.
func (b *bench) startOursWith(ctx context.Context, dir, fields string) (*cluster, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	args := []string{"server", "--data-dir", data, "--port", port}
	if !b.fsync {
		fields += "etcd:\n  embedded:\n    fsync: false\n"
	}
	if fields != "" {
		config := filepath.Join(dir, "config.yaml")
		text := "apiVersion: kube-hyper-mini.io/v1alpha1\nkind: ServerConfiguration\n" + fields
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("write kube-hyper-mini's configuration: %w", err)
		}
		args = append(args, "--config", config)
	}
	c := &cluster{
		dir:        dir,
		kubeconfig: filepath.Join(data, "admin.kubeconfig"),
		metrics:    []string{"https://127.0.0.1:" + port + "/metrics"},
	}
	// One that an earlier start has left names an earlier port.
	if err := os.Remove(c.kubeconfig); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove an old kubeconfig: %w", err)
	}
	began := time.Now()
	p, err := startProcess(dir, "kube-hyper-mini", b.programs.ours, args...)
	if err != nil {
		return nil, err
	}
	c.stages = [][]*process{{p}}
	if err := c.awaitWrite(ctx, began); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	if err := c.awaitControllers(ctx, began); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	if err := c.awaitReady(ctx); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}
