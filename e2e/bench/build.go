package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// programs are the paths of what is measured, and of kubectl.
type programs struct {
	ours, etcd, apiserver, controllers, kubectl string
}

// buildAll builds the sides that are measured. It completes the settings with the default
// directory for programs.
func buildAll(ctx context.Context, s *settings, progress io.Writer) (programs, error) {
	var p programs
	root, err := repository(ctx)
	if err != nil {
		return p, err
	}
	if s.bin == "" {
		s.bin = filepath.Join(root, ".bin")
	}
	version, err := output(ctx, root, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	if err != nil {
		return p, err
	}
	e2e := filepath.Join(root, "e2e")
	// Programs for measuring are stripped, as releases are, and apart from
	// those that tests build.
	for _, program := range []struct {
		path           *string
		dir, pkg, name string
	}{
		{&p.ours, root, ".", "bench-kube-hyper-mini"},
		{&p.etcd, e2e, "go.etcd.io/etcd/server/v3", "bench-etcd"},
		{&p.apiserver, e2e, "k8s.io/kubernetes/cmd/kube-apiserver", "bench-kube-apiserver"},
		{&p.controllers, e2e, "k8s.io/kubernetes/cmd/kube-controller-manager", "bench-kube-controller-manager"},
		{&p.kubectl, e2e, "k8s.io/kubernetes/cmd/kubectl", "bench-kubectl"},
	} {
		isTheirs := slices.Contains([]*string{&p.etcd, &p.apiserver, &p.controllers}, program.path)
		if s.side == ours && isTheirs || s.serve && !isTheirs {
			continue
		}
		*program.path = filepath.Join(s.bin, program.name)
		if program.path == &p.ours && s.ours != "" {
			p.ours = s.ours
		} else {
			_, _ = fmt.Fprintf(progress, "build %s\n", program.name) // progress is not a result
			if err := build(ctx, program.dir, program.pkg, *program.path, version); err != nil {
				return p, err
			}
		}
		if err := forget(*program.path); err != nil {
			return p, err
		}
	}
	return p, nil
}

// build links a program with the Kubernetes version stamped into it; without
// one kubectl and the servers refuse each other.
func build(ctx context.Context, dir, pkg, path, version string) error {
	flags := "-s -w"
	for _, stamped := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags += " -X " + stamped + ".gitVersion=" + version
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", flags, "-o", path, pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, text)
	}
	return nil
}

// repository is the directory of the product's go.mod.
func repository(ctx context.Context) (string, error) {
	file, err := output(ctx, ".", "go", "env", "GOMOD")
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(file)
	if filepath.Base(dir) != "e2e" {
		return "", errors.New("find the repository: run the benchmark from the directory e2e, as make bench does")
	}
	return filepath.Dir(dir), nil
}

// output runs a program and returns what it printed.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("run %s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
