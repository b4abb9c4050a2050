package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/conformance/specs"
)

const (
	exitPassed = iota
	exitFailed
	exitNotRun
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// What a list is run against.
const (
	ourSide   = "kube-hyper-mini"
	otherSide = "kube-apiserver" // with kube-controller-manager and etcd, without nodes
)

// options are the command line.
type options struct {
	lists      []specs.List
	only       string
	kubeconfig string
	side       string
	binary     string
	kubectl    string
	out        string
	root       string
	procs      int
	limit      time.Duration
}

func parseOptions(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	flags.SetOutput(stderr)
	lists := flags.String("lists", specs.Generic+","+specs.OptIn, "lists to run: generic, optin, fast, kubernetes")
	flags.StringVar(&o.only, "only", "", "run only the listed specs that match this regular expression")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "run against the server that this file names instead of starting one for each list")
	flags.StringVar(&o.side, "side", ourSide, "what to start for each list: "+ourSide+", or "+otherSide+" with kube-controller-manager and etcd, without nodes")
	flags.StringVar(&o.binary, "binary", os.Getenv("KHM_BINARY"), "product binary to test instead of building it")
	flags.StringVar(&o.kubectl, "kubectl", os.Getenv("KHM_KUBECTL"), "kubectl of the suite's Kubernetes to use instead of building it")
	flags.StringVar(&o.root, "root", filepath.Join("..", ".."), "the repository's directory")
	flags.StringVar(&o.out, "out", "", "directory for results, logs and binaries (default <root>/.bin/conformance)")
	flags.IntVar(&o.procs, "procs", min(8, 2*runtime.NumCPU()), "how many specs run at the same time")
	flags.DurationVar(&o.limit, "limit", 0, "end each spec after this time, as to look for specs that a list lacks; 0 is never")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("read the command line: %q is not a flag", flags.Arg(0))
	}
	switch {
	case o.side != ourSide && o.side != otherSide:
		return nil, fmt.Errorf("read the command line: -side=%s: it is %s or %s", o.side, ourSide, otherSide)
	case o.side == otherSide && o.kubeconfig != "":
		return nil, fmt.Errorf("read the command line: -side=%s starts a server of its own: leave out one of it and -kubeconfig", otherSide)
	}
	if o.out == "" {
		o.out = filepath.Join(o.root, ".bin", "conformance")
	}
	for _, path := range []*string{&o.out, &o.root, &o.kubeconfig, &o.binary, &o.kubectl} {
		if *path == "" {
			continue
		}
		abs, err := filepath.Abs(*path)
		if err != nil {
			return nil, fmt.Errorf("read the command line: %w", err)
		}
		*path = abs
	}
	return o, o.load(*lists)
}

// load loads the named lists and keeps what -only selects.
func (o *options) load(names string) error {
	pattern, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("read -only: %w", err)
	}
	for name := range strings.SplitSeq(names, ",") {
		list, err := specs.Load(strings.TrimSpace(name))
		if err != nil {
			return err
		}
		if o.side == otherSide && list.Name == specs.OptIn {
			return fmt.Errorf("select specs: those of %s need APIs that -side=%s does not switch on; name other -lists", list.Name, o.side)
		}
		if list = list.Only(pattern); len(list.Specs) > 0 {
			o.lists = append(o.lists, list)
		}
	}
	if len(o.lists) == 0 {
		return fmt.Errorf("select specs: none of those in %s matches -only=%q", names, o.only)
	}
	return nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitPassed
	}
	passed := false
	if err == nil {
		passed, err = conform(ctx, o, stdout)
	}
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "conformance:", err)
		return exitNotRun
	case !passed:
		return exitFailed
	}
	return exitPassed
}

// conform runs all lists and reports whether all specs passed. An error means
// that there is no result.
func conform(ctx context.Context, o *options, stdout io.Writer) (passed bool, err error) {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return false, fmt.Errorf("make the directory for results: %w", err)
	}
	work, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return false, fmt.Errorf("make a working directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	fmt.Fprintln(stdout, "building the suite, kubectl and the product; the first time takes minutes")
	programs, err := buildAll(ctx, o)
	if err != nil {
		return false, err
	}
	all, err := runRounds(ctx, o, programs, work, stdout)
	if err != nil {
		return false, err
	}
	junit := filepath.Join(o.out, "junit.xml")
	if err := all.writeJUnit(junit); err != nil {
		return false, err
	}
	fmt.Fprintf(stdout, "results in %s\n", junit)
	all.print(stdout)
	return all.passed(), nil
}

// runRounds runs the lists one after the other.
func runRounds(ctx context.Context, o *options, programs *programs, work string, stdout io.Writer) (*results, error) {
	all := &results{}
	for _, list := range o.lists {
		r := &round{list: list, options: o, programs: programs, work: filepath.Join(work, list.Name), stdout: stdout}
		err := r.run(ctx)
		if ctx.Err() != nil || r.report == nil {
			return nil, fmt.Errorf("run the specs of %s: %w", list.Name, err)
		}
		all.add(list, r.report)
		if err != nil { // there are results, but the server did not end well
			all.addFault(list, err)
		}
	}
	return all, nil
}
