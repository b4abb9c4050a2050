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
	"runtime"
	"strings"
	"syscall"
	"time"
)

// settings are what the command line decides.
type settings struct {
	run    string
	side   string
	runs   int
	json   string
	dir    string
	bin    string
	ours   string
	fsync  bool
	idle   time.Duration
	settle time.Duration
	crds   int
	// crdArchive has the CRDs of the figure crds, and crdTimes is how often it
	// repeats them; 0 is once and four times.
	crdArchive string
	crdTimes   int
	planes     int // of the figure planes
	// crdLimit bounds each step of the figure crds, and crdSteps are those that run.
	crdLimit time.Duration
	crdSteps []crdStep
	keep     bool
	list     bool
	// serve is whether the other side serves instead of being measured.
	serve bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if len(os.Args) == 4 && os.Args[1] == probeArgument {
		err = runProbe(ctx, os.Args[2], os.Args[3], os.Stdin, os.Stdout)
	} else {
		err = execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func parse(args []string, out io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&s.run, "run", "", "comma-separated names of figures; all when empty (see -list)")
	flags.StringVar(&s.side, "side", "", "ours or theirs: measure one side only")
	flags.IntVar(&s.runs, "runs", 5, "how often each figure is measured on each side")
	flags.StringVar(&s.json, "json", "", "file for the results as JSON (default: bench.json in -bin)")
	flags.StringVar(&s.dir, "dir", "", "where to make data directories, which decides on the disk (default: the system's temporary directory)")
	flags.StringVar(&s.bin, "bin", "", "directory for the built programs (default: .bin in the repository)")
	flags.StringVar(&s.ours, "binary", os.Getenv("KHM_BINARY"), "a built kube-hyper-mini to measure instead of building it")
	flags.BoolVar(&s.fsync, "fsync", true, "whether etcd waits for the disk, on both sides")
	flags.DurationVar(&s.idle, "idle", time.Minute, "how long idle servers are watched")
	flags.DurationVar(&s.settle, "settle", 30*time.Second, "how long a started server is left alone before it counts as idle")
	flags.IntVar(&s.crds, "crds", 600, "CRDs for namespace-empty-crds; 0 leaves that figure out")
	flags.StringVar(&s.crdArchive, "crd-archive", filepath.Join("..", defaultArchive), "CRDs for the figure crds: a .tar or .tar.xz of YAML files")
	flags.IntVar(&s.crdTimes, "crds-times", 0, "how often the figure crds repeats the archive, under other groups and kinds (default: once, and four times)")
	flags.DurationVar(&s.crdLimit, "crd-limit", 10*time.Minute, "how long a step of the figure crds may take; a step that takes longer has no value")
	steps := flags.String("crd-steps", "", "comma-separated names of the steps of the figure crds after the load; all, which take about ten minutes for a set, most of them rests before a measurement, when empty")
	flags.IntVar(&s.planes, "planes", 200, "control planes of the figure planes, at least 50")
	flags.BoolVar(&s.keep, "keep", false, "leave the data directories and logs where they are")
	flags.BoolVar(&s.list, "list", false, "list the figures and end")
	flags.BoolVar(&s.serve, "serve", false, "measure nothing: run the other side with all its controllers, print the path of its kubeconfig, and stay until interrupted")
	flags.Usage = func() {
		_, _ = fmt.Fprint(out, "usage: bench [flags]\n\n"+
			"Measures kube-hyper-mini beside etcd, kube-apiserver and kube-controller-manager\n"+
			"of the same versions. The latter run with RBAC, their own certificates, the\n"+
			"controllers that kube-hyper-mini runs, and default settings otherwise.\n\n") // an error of the usage text is ignored, as the flag package does
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	switch {
	case s.planes < planesAlone:
		return s, fmt.Errorf("-planes: %d are too few, at least %d", s.planes, planesAlone)
	case flags.NArg() > 0:
		return s, fmt.Errorf("unexpected argument %q: figures are named with -run", flags.Arg(0))
	case s.serve && s.side == ours:
		return s, errors.New("-serve runs the other side: leave -side out")
	case s.crdTimes < 0:
		return s, fmt.Errorf("-crds-times %d: it is a number of times", s.crdTimes)
	case s.crdLimit <= 0:
		return s, fmt.Errorf("-crd-limit %s: it is a time", s.crdLimit)
	case s.runs < 1:
		return s, fmt.Errorf("-runs %d: at least one run is needed", s.runs)
	case s.side != "" && s.side != "ours" && s.side != "theirs":
		return s, fmt.Errorf("-side %q: it is ours or theirs", s.side)
	}
	var err error
	s.crdSteps, err = chooseSteps(*steps)
	return s, err
}

func execute(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	s, err := parse(args, progress)
	if err != nil {
		return err
	}
	selected, err := choose(figures(s), s.run)
	if err != nil {
		return err
	}
	switch {
	case s.list:
		return listFigures(out, selected)
	case s.serve:
		s.side = theirs
	}
	if runtime.GOOS != "linux" {
		return fmt.Errorf("measure on %s: memory, CPU and disk are read from /proc, which only Linux has", runtime.GOOS)
	}
	b, err := newBench(ctx, s, progress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.remove(b.dir)) }()
	if s.serve {
		return b.serveTheirs(ctx, out)
	}
	report, err := b.measure(ctx, selected)
	if err != nil {
		return err
	}
	if err := report.writeTable(out); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return nil
}

// bench is one invocation of the program.
type bench struct {
	settings
	programs programs
	sides    []side
	dir      string
	progress io.Writer
	servers  int      // data directories made so far
	notes    []string // on figures that were not measured
}

func newBench(ctx context.Context, s settings, progress io.Writer) (*bench, error) {
	b := &bench{settings: s, progress: progress}
	var err error
	if b.programs, err = buildAll(ctx, &b.settings, progress); err != nil {
		return nil, err
	}
	for _, side := range []side{{ours, b.startOurs}, {theirs, b.startTheirs}} {
		if s.side == "" || s.side == side.name {
			b.sides = append(b.sides, side)
		}
	}
	if b.json == "" {
		b.json = filepath.Join(b.bin, "bench.json")
	}
	if b.dir, err = os.MkdirTemp(s.dir, "kube-hyper-mini-bench-"); err != nil {
		return nil, fmt.Errorf("make a directory for data: %w", err)
	}
	return b, nil
}

// measure runs the figures, each on both sides in turn.
func (b *bench) measure(ctx context.Context, selected []figure) (*report, error) {
	r := newReport(b.settings)
	for _, f := range selected {
		samples := map[string][][]float64{}
		for run := 1; run <= b.runs; run++ {
			for _, side := range b.sides {
				settleDisk()
				began := time.Now()
				values, err := f.measure(ctx, b, side)
				if err != nil {
					return nil, fmt.Errorf("measure %s of %s: %w", f.name, side.name, err)
				}
				samples[side.name] = append(samples[side.name], values)
				b.say("%s, run %d, %s: %s (%s)", f.name, run, side.name, describe(f, values), time.Since(began).Round(time.Second))
			}
		}
		r.add(f, samples)
		r.Notes = b.notes
		// After each, because all of them take hours.
		if err := r.writeJSON(b.json); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// say prints progress to standard error.
func (b *bench) say(format string, args ...any) {
	_, _ = fmt.Fprintf(b.progress, format+"\n", args...) // progress is not a result
}

// note prints why something was not measured, now and below the table.
func (b *bench) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	b.say("%s", text)
	b.notes = append(b.notes, text)
}

// newDir makes a directory for a server's data.
func (b *bench) newDir(name string) (string, error) {
	b.servers++
	dir := filepath.Join(b.dir, fmt.Sprintf("%03d-%s", b.servers, name))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("make a data directory: %w", err)
	}
	return dir, nil
}

// remove deletes a directory of data and logs, unless they are to be kept.
func (b *bench) remove(dir string) error {
	if b.keep {
		b.say("kept: %s", dir)
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove data: %w", err)
	}
	return nil
}

// choose returns the figures that a comma-separated list names.
func choose(all []figure, list string) ([]figure, error) {
	if list == "" {
		return all, nil
	}
	var chosen []figure
	for _, name := range strings.Split(list, ",") {
		found := false
		for _, f := range all {
			if f.name == name {
				chosen, found = append(chosen, f), true
			}
		}
		if !found {
			return nil, fmt.Errorf("no figure is called %q: see -list", name)
		}
	}
	return chosen, nil
}
