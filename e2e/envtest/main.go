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
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const module = "sigs.k8s.io/controller-runtime"

// fast are the suites that CI runs; all are those that start a control plane.
var (
	fast = []string{"pkg/cluster", "pkg/envtest", "pkg/builder", "pkg/client"}
	all  = append(fast, "pkg/internal/testing/controlplane", "pkg/cache", "pkg/controller", "pkg/handler",
		"pkg/internal/controller", "pkg/internal/recorder", "pkg/manager", "pkg/manager/internal/integration", "pkg/source", "pkg/webhook")
)

// withoutControllers is the default of the environment: the suites are written for
// control planes without controllers. A spec of pkg/client removes the finalizers of a
// namespace itself, which the namespace controller may do first.
const withoutControllers = "KUBE_HYPER_MINI_CONTROLLERS=none"

// counts is Ginkgo's account of a suite.
var counts = regexp.MustCompile(`(\d+) Passed \| (\d+) Failed \| (\d+) Pending \| (\d+) Skipped`)

func main() {
	binary := flag.String("binary", "", "kube-hyper-mini to test instead of building it")
	assets := flag.String("assets", "", "directory with kube-apiserver, etcd and kubectl to run on instead, as those of kube-apiserver")
	part := flag.Bool("fast", false, "run the suites of CI only")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	passed, err := run(ctx, *binary, *assets, *part)
	stop()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "envtest:", err)
		os.Exit(2)
	case !passed:
		os.Exit(1)
	}
}

func run(ctx context.Context, binary, assets string, part bool) (passed bool, err error) {
	work, err := os.MkdirTemp("", "envtest-suites-")
	if err != nil {
		return false, fmt.Errorf("make a working directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if assets == "" {
		assets = filepath.Join(work, "assets")
		if err := install(ctx, binary, work, assets); err != nil {
			return false, err
		}
	}
	source, err := copySource(ctx, work)
	if err != nil {
		return false, err
	}
	suites := all
	if part {
		suites = fast
	}
	total, failed, began := 0, 0, time.Now()
	for _, suite := range suites {
		ok, bad, err := runSuite(ctx, suite, source, work, assets)
		if err != nil {
			return false, err
		}
		total, failed = total+ok+bad, failed+bad
	}
	fmt.Printf("envtest: %d passed, %d failed of %d specs in %d suites, %s with the builds\n", total-failed, failed, total, len(suites), time.Since(began).Round(time.Second))
	return failed == 0, nil
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

// runSuite builds and runs one suite, and counts the specs that passed and failed.
func runSuite(ctx context.Context, suite, source, work, assets string) (passed, failed int, err error) {
	binary := filepath.Join(work, strings.ReplaceAll(suite, "/", "_")+".test")
	if err := command(ctx, ".", "go", "test", "-c", "-o", binary, module+"/"+suite); err != nil {
		return 0, 0, err
	}
	began := time.Now()
	cmd := exec.CommandContext(ctx, binary, "-ginkgo.no-color")
	cmd.Dir = filepath.Join(source, filepath.FromSlash(suite))
	cmd.Env = append(append([]string{withoutControllers}, os.Environ()...), "KUBEBUILDER_ASSETS="+assets)
	out, runErr := cmd.CombinedOutput()
	found := counts.FindSubmatch(out)
	if found == nil {
		return 0, 0, fmt.Errorf("run %s: no account of its specs: %w\n%s", suite, runErr, out)
	}
	number := func(i int) int { n, _ := strconv.Atoi(string(found[i])); return n } // the expression has digits only
	passed, failed = number(1), number(2)
	fmt.Printf("%-36s %4d passed %3d failed %6.1fs\n", suite, passed, failed, time.Since(began).Seconds())
	if failed > 0 || runErr != nil {
		fmt.Printf("%s\n", out)
	}
	if runErr != nil && failed == 0 {
		return 0, 0, fmt.Errorf("run %s: %w", suite, runErr)
	}
	return passed, failed, nil
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
