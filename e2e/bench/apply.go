package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// applied is the number of objects in the manifest.
const applied = 200

// measureApply runs kubectl with an empty home directory, as on a build
// machine: discovery is part of what it does.
func measureApply(ctx context.Context, b *bench, s side) (values []float64, err error) {
	err = b.withFixture(ctx, s, func(f fixture) error {
		var documents []string
		for i := range applied {
			documents = append(documents, string(configMap(objectName(i), "", nil, payload)))
		}
		manifest := filepath.Join(f.dir, "manifest.yaml")
		if err := os.WriteFile(manifest, []byte(strings.Join(documents, "\n---\n")), 0o600); err != nil {
			return fmt.Errorf("write the manifest: %w", err)
		}
		values, err = f.kubectlApply(ctx, b, manifest)
		return err
	})
	return values, err
}

// measureApplyCRDs applies a directory with the CRDs of the archive.
func measureApplyCRDs(ctx context.Context, b *bench, s side) (values []float64, err error) {
	set, err := readDefinitions(ctx, b.crdArchive, 1)
	if err != nil {
		return nil, err
	}
	err = b.withFixture(ctx, s, func(f fixture) error {
		dir := filepath.Join(f.dir, "crds")
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("make a directory for the CRDs: %w", err)
		}
		for _, d := range set {
			if err := os.WriteFile(filepath.Join(dir, d.name+".json"), d.body, 0o600); err != nil {
				return fmt.Errorf("write the CRDs: %w", err)
			}
		}
		values, err = f.kubectlApply(ctx, b, dir)
		return err
	})
	return values, err
}

// kubectlApply is how long kubectl takes to apply a file or a directory.
func (f fixture) kubectlApply(ctx context.Context, b *bench, path string) ([]float64, error) {
	cmd := exec.CommandContext(ctx, b.programs.kubectl, "--kubeconfig", f.kubeconfig, "apply", "--server-side", "-f", path)
	cmd.Env = append(os.Environ(), "HOME="+filepath.Join(f.dir, "home"))
	began := time.Now()
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("kubectl apply: %w\n%s", err, text)
	}
	return []float64{since(began)}, nil
}
