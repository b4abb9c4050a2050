// Command envtest runs the suites of controller-runtime, unmodified, on the programs
// that `kube-hyper-mini envtest DIR` makes, and counts their specs.
//
// Exit codes: 0 all specs passed, 1 some failed, 2 they could not be run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

const module = "sigs.k8s.io/controller-runtime"

// fast are suites that take seconds; all are those with specs that start a control plane.
var (
	fast = []string{"pkg/cluster", "pkg/envtest", "pkg/builder", "pkg/client"}
	all  = append(fast, "pkg/cache", "pkg/controller", "pkg/controller/controllerutil", "pkg/handler", "pkg/internal/controller",
		"pkg/internal/recorder", "pkg/internal/testing/controlplane", "pkg/manager", "pkg/manager/internal/integration",
		"pkg/metrics/filters", "pkg/reconcile", "pkg/source", "pkg/webhook")
)

// withoutControllers is the default of the environment: the suites are written for
// control planes without controllers. deleteNamespace of pkg/client removes the finalizers
// of a namespace itself, which the namespace controller may do first.
const withoutControllers = "KUBE_HYPER_MINI_CONTROLLERS=none"

// patience replaces limits of the suites that assume a fast machine.
var patience = []string{
	"GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT=2m", "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=2m", "KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT=2m",
}

// counts is Ginkgo's account of a suite.
var counts = regexp.MustCompile(`(\d+) Passed \| (\d+) Failed \| (\d+) Pending \| (\d+) Skipped`)

// options are the flags.
type options struct {
	binary, assets, suites string
	fast                   bool
}

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", os.Getenv("KHM_BINARY"), "kube-hyper-mini to test instead of building it")
	flag.StringVar(&o.assets, "assets", "", "directory with kube-apiserver, etcd and kubectl to run on instead, as those of kube-apiserver")
	flag.StringVar(&o.suites, "suites", "", "the suites to run, as pkg/cache,pkg/webhook (default: all)")
	flag.BoolVar(&o.fast, "fast", false, "run four suites that take seconds")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	passed, err := run(ctx, o)
	stop()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "envtest:", err)
		os.Exit(2)
	case !passed:
		os.Exit(1)
	}
}

// selected returns the suites to run.
func (o options) selected() ([]string, error) {
	switch {
	case o.suites == "" && o.fast:
		return fast, nil
	case o.suites == "":
		return all, nil
	}
	names := strings.Split(o.suites, ",")
	for _, name := range names {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("-suites: there is no suite %q; the suites are %s", name, strings.Join(all, ", "))
		}
	}
	return names, nil
}

func run(ctx context.Context, o options) (passed bool, err error) {
	suites, err := o.selected()
	if err != nil {
		return false, err
	}
	work, err := os.MkdirTemp("", "envtest-suites-")
	if err != nil {
		return false, fmt.Errorf("make a working directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	assets := o.assets
	if assets == "" {
		assets = filepath.Join(work, "assets")
		if err := install(ctx, o.binary, work, assets); err != nil {
			return false, err
		}
	} else if assets, err = filepath.Abs(assets); err != nil { // the suites have other working directories
		return false, fmt.Errorf("-assets: %w", err)
	}
	source, err := copySource(ctx, work)
	if err != nil {
		return false, err
	}
	var results []result
	for _, suite := range suites {
		r, err := runSuite(ctx, suite, source, assets)
		if err != nil {
			return false, err
		}
		results = append(results, r)
	}
	return report(os.Stdout, results)
}

// result is that of a suite.
type result struct {
	suite         string
	passed, total int
	took          time.Duration
	processor     time.Duration // of the suite with its control planes
	failed        bool          // also if all specs that ran have passed
}

// report prints a table of the suites and reports whether all have passed.
func report(w io.Writer, results []result) (passed bool, err error) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	all := result{suite: fmt.Sprintf("%d suites", len(results))}
	_, _ = fmt.Fprintln(table, "passed\tspecs\tseconds\tprocessor\t\t suite") // Flush reports what failed
	row := func(r result) {
		note := ""
		if r.failed {
			note = "FAILED"
		}
		_, _ = fmt.Fprintf(table, "%d\t%d\t%.1f\t%.1f\t%s\t %s\n", r.passed, r.total, r.took.Seconds(), r.processor.Seconds(), note, r.suite)
	}
	for _, r := range results {
		row(r)
		all.passed, all.total = all.passed+r.passed, all.total+r.total
		all.took, all.processor = all.took+r.took, all.processor+r.processor
		all.failed = all.failed || r.failed
	}
	row(all)
	return !all.failed, table.Flush()
}

// install builds the product and makes the programs.
func install(ctx context.Context, binary, work, assets string) error {
	if binary == "" {
		binary = filepath.Join(work, "kube-hyper-mini")
		if err := command(ctx, filepath.Join("..", ".."), "go", "build", "-o", binary, "."); err != nil {
			return err
		}
	}
	return command(ctx, work, binary, "envtest", assets)
}

// copySource copies controller-runtime to where its tests can write.
func copySource(ctx context.Context, work string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", module, err)
	}
	dir := filepath.Join(work, "source")
	if err := os.CopyFS(dir, os.DirFS(strings.TrimSpace(string(out)))); err != nil {
		return "", fmt.Errorf("copy %s: %w", module, err)
	}
	err = filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chmod(path, 0o755) // some are programs, and the module cache has no modes
	})
	return dir, err
}

// runSuite builds and runs one suite, and counts the specs that were to run. Those that
// the suite leaves out by itself (pending, skipped) are not among them.
func runSuite(ctx context.Context, suite, source, assets string) (result, error) {
	r := result{suite: suite}
	// It is kept: go links it again when it differs.
	binary, err := filepath.Abs(filepath.Join("..", "..", ".bin", "envtest", strings.ReplaceAll(suite, "/", "_")+".test"))
	if err != nil {
		return r, err
	}
	if err := command(ctx, ".", "go", "test", "-c", "-ldflags=-w", "-o", binary, module+"/"+suite); err != nil {
		return r, err
	}
	began := time.Now()
	cmd := exec.CommandContext(ctx, binary, "-ginkgo.no-color")
	cmd.Dir = filepath.Join(source, filepath.FromSlash(suite))
	cmd.Env = slices.Concat([]string{withoutControllers}, patience, os.Environ(), []string{"KUBEBUILDER_ASSETS=" + assets})
	out, runErr := cmd.CombinedOutput()
	r.took = time.Since(began)
	if cmd.ProcessState != nil {
		r.processor = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	if ctx.Err() != nil {
		return r, fmt.Errorf("run %s: %w", suite, context.Cause(ctx))
	}
	found := counts.FindSubmatch(out)
	if found == nil {
		return r, fmt.Errorf("run %s: no account of its specs: %w\n%s", suite, runErr, out)
	}
	number := func(i int) int { n, _ := strconv.Atoi(string(found[i])); return n } // the expression has digits only
	r.passed, r.total, r.failed = number(1), number(1)+number(2), number(2) > 0 || runErr != nil
	fmt.Printf("%s: %d of %d specs passed in %.1f s (%d pending, %d skipped)\n", suite, r.passed, r.total, r.took.Seconds(), number(3), number(4))
	if r.failed {
		fmt.Printf("%s\n%v\n", out, runErr)
	}
	return r, nil
}

// command runs a program in a directory.
func command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run %s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
