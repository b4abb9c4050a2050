package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/onsi/ginkgo/v2/types"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/conformance/specs"
)

// roundTimeout bounds a round, which takes minutes. The slowest spec waits up to five
// minutes for the quota controller's full resync.
const roundTimeout = time.Hour

// round is one list of specs against one server.
type round struct {
	list     specs.List
	options  *options
	programs *programs
	work     string
	stdout   io.Writer
	// report is Ginkgo's, nil if there is none. Set by run.
	report *types.Report
}

// run starts a server unless there is one, and runs the specs. That specs fail
// is no error; that the server does not end well is one.
func (r *round) run(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(r.work, "home"), 0o755); err != nil {
		return fmt.Errorf("make a working directory: %w", err)
	}
	if r.options.kubeconfig != "" {
		return r.runSpecs(ctx, r.options.kubeconfig)
	}
	s, err := r.startServer(ctx)
	if err != nil {
		return err
	}
	if err = publishClusterInfo(ctx, s.kubeconfig); err == nil {
		err = r.runSpecs(ctx, s.kubeconfig)
	}
	return errors.Join(err, s.stop())
}

// startServer starts the side under test with what the list needs.
func (r *round) startServer(ctx context.Context) (*server, error) {
	if r.options.side == otherSide {
		return startOtherSide(ctx, r.programs.server, r.options.endToEnd(), r.work, r.file("server.log"))
	}
	config := filepath.Join(r.work, "config.yaml")
	if err := os.WriteFile(config, r.list.ServerConfig, 0o600); err != nil {
		return nil, fmt.Errorf("write the server's configuration: %w", err)
	}
	return startProduct(ctx, r.programs.server, config, r.work, r.file("server.log"))
}

// file is a file of this round in the directory for results.
func (r *round) file(name string) string {
	return filepath.Join(r.options.out, r.list.Name+"-"+name)
}

// runSpecs runs Ginkgo's own runner, which hands the specs out to processes of
// the suite and runs the [Serial] ones alone at the end.
func (r *round) runSpecs(ctx context.Context, kubeconfig string) error {
	procs := r.options.procs
	if r.list.Name == specs.OptIn {
		procs = 1 // two of its specs elect by the same lease
	}
	fmt.Fprintf(r.stdout, "%s: %d specs, %d at a time; log in %s\n", r.list.Name, len(r.list.Specs), procs, r.file("specs.log"))
	log, err := os.Create(r.file("specs.log"))
	if err != nil {
		return fmt.Errorf("make the log of the specs: %w", err)
	}
	defer log.Close() //nolint:errcheck // the process has written to it, not we
	cmd := exec.CommandContext(ctx, r.programs.ginkgo, "run", "--no-color", "--silence-skips",
		"--procs="+strconv.Itoa(procs), "--timeout="+roundTimeout.String(),
		"--output-dir="+r.work, "--json-report=report.json", r.programs.suite, "--",
		"-test.run=^TestSpecs$", "--list="+r.list.Name, "--only="+r.options.only, "--limit="+r.options.limit.String(),
		"--kubeconfig="+kubeconfig, "--kubectl-path="+r.programs.kubectl, "--e2e-output-dir="+r.work)
	cmd.Dir = r.work
	// kubectl keeps caches in the home directory.
	cmd.Env = append(os.Environ(), "HOME="+filepath.Join(r.work, "home"), "TMPDIR="+r.work)
	cmd.Stdout = io.MultiWriter(log, &progress{out: r.stdout, list: r.list})
	cmd.Stderr = log
	// Interrupted, Ginkgo lets the specs clean up.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = stopPatience
	runErr := cmd.Run()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("run ginkgo: %w", err)
	}
	if r.report, err = readReport(r.work); err != nil {
		return errors.Join(err, runErr)
	}
	if runErr != nil && r.report.SuiteSucceeded {
		return fmt.Errorf("run ginkgo: it failed, though its report says that the suite succeeded: %w", runErr)
	}
	return nil
}

// readReport reads the one report in dir; Ginkgo decides on the first part of
// its name.
func readReport(dir string) (*types.Report, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*report.json"))
	if err != nil {
		return nil, fmt.Errorf("find ginkgo's report in %s: %w", dir, err)
	}
	if len(files) != 1 {
		return nil, fmt.Errorf("find ginkgo's report in %s: want one, found %q", dir, files)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		return nil, fmt.Errorf("read ginkgo's report: %w", err)
	}
	var reports []types.Report
	if err := json.Unmarshal(text, &reports); err != nil {
		return nil, fmt.Errorf("read ginkgo's report: %w", err)
	}
	if len(reports) != 1 {
		return nil, fmt.Errorf("read ginkgo's report: want one suite, found %d", len(reports))
	}
	return &reports[0], nil
}
