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
		manifest := filepath.Join(f.dir, "manifest.yaml")
		var documents []string
		for i := range applied {
			documents = append(documents, string(configMap(objectName(i), "", nil, payload)))
		}
		if err := os.WriteFile(manifest, []byte(strings.Join(documents, "\n---\n")), 0o600); err != nil {
			return fmt.Errorf("write the manifest: %w", err)
		}
		cmd := exec.CommandContext(ctx, b.programs.kubectl, "--kubeconfig", f.kubeconfig, "apply", "--server-side", "-f", manifest)
		cmd.Env = append(os.Environ(), "HOME="+filepath.Join(f.dir, "home"))
		began := time.Now()
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl apply: %w\n%s", err, text)
		}
		values = []float64{since(began)}
		return nil
	})
	return values, err
}
