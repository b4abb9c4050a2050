package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// runFromRows are of `kube-hyper-mini run --from` with all CRDs of the archive of CRDs;
// the other side has nothing of the kind.
var runFromRows = []row{
	{name: "run --from ARCHIVE with the CRDs, to ready", unit: inSeconds},
	{name: "run --from DIR with the CRDs, kept by --keep, to ready", unit: inSeconds, limit: 0.6},
}

// measureRunFrom installs the CRDs once, and starts servers for tests from the result.
func measureRunFrom(ctx context.Context, b *bench, s side) (values []float64, err error) {
	if s.name != ours {
		return slices.Repeat([]float64{math.NaN()}, len(runFromRows)), nil
	}
	dir, err := b.newDir(s.name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.remove(dir)) }()
	archive := filepath.Join(dir, "archive.tar.gz")
	kept, err := b.makeTemplate(ctx, dir, archive)
	if err != nil {
		return nil, err
	}
	for _, from := range []string{archive, kept} {
		began := time.Now()
		p, err := b.startTestServer(ctx, dir, "--from", from)
		if err != nil {
			return nil, err
		}
		values = append(values, since(began))
		if err := p.stop(); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// makeTemplate installs the CRDs, and returns the directory that has them. The archive
// has them too.
func (b *bench) makeTemplate(ctx context.Context, dir, archive string) (kept string, err error) {
	definitions, err := readDefinitions(ctx, b.crdArchive, 1)
	if err != nil {
		return "", err
	}
	crds := filepath.Join(dir, "crds")
	if err := os.Mkdir(crds, 0o700); err != nil {
		return "", fmt.Errorf("write the CRDs: %w", err)
	}
	for _, d := range definitions {
		if err := os.WriteFile(filepath.Join(crds, d.name+".json"), d.body, 0o600); err != nil {
			return "", fmt.Errorf("write the CRDs: %w", err)
		}
	}
	cmd := exec.CommandContext(ctx, b.programs.ours, "run", "--keep", "--crds", crds, "--", "sh", "-c", `"$0" backup save --data-dir "$KUBE_HYPER_MINI_DATA_DIR" "$1" >&2; echo "$KUBE_HYPER_MINI_DATA_DIR"`, b.programs.ours, archive)
	cmd.Env = testServerEnvironment(dir)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("install the CRDs: %w\n%s", err, errs.String())
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}
