package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"
)

// crdGoals are the goals for a set of CRDs; 0 is none.
type crdGoals struct {
	established, list, openAPIv2, warm                  float64 // seconds
	highest, after, listMemory, openAPIv2Memory, client float64 // bytes
	idle                                                float64 // percent of a core
}

// goalsOf are the goals of a set, by how often it repeats the archive.
var goalsOf = map[int]crdGoals{
	1:  {established: 3, highest: 250e6, after: 150e6, warm: 0.4, list: 1, listMemory: 300e6, openAPIv2: 3, openAPIv2Memory: 300e6, idle: 0.2},
	4:  {established: 12, highest: 500e6, after: 220e6, warm: 0.8, list: 3, listMemory: 800e6, openAPIv2: 12, openAPIv2Memory: 1e9, client: 1e9, idle: 0.5},
	16: {established: 60, after: 500e6, warm: 2},
}

// crdStep measures something on a server that has the CRDs, and returns a value
// for each of its rows.
type crdStep struct {
	name    string
	rows    func(crdGoals) []row
	measure func(r *crdRun, ctx context.Context) ([]float64, error)
	// required means that the next steps mean nothing if this one fails.
	required bool
}

// chooseSteps returns the steps of a comma-separated list of names, all if it is empty.
// The CRDs are always loaded.
func chooseSteps(list string) ([]crdStep, error) {
	if list == "" {
		return crdSteps, nil
	}
	chosen := []crdStep{loadStep}
	for _, name := range strings.Split(list, ",") {
		i := slices.IndexFunc(crdSteps, func(step crdStep) bool { return step.name == name })
		if i < 0 {
			var names []string
			for _, step := range crdSteps {
				names = append(names, step.name)
			}
			return nil, fmt.Errorf("-crd-steps: no step is called %q: they are %s", name, strings.Join(names, ", "))
		}
		if name != loadStep.name {
			chosen = append(chosen, crdSteps[i])
		}
	}
	return chosen, nil
}

// crdRun is a server on which the steps run.
type crdRun struct {
	fixture
	bench *bench
	side  side
	set   []definition
	empty idleUsage // before the CRDs
}

// idleUsage is what a server takes that has nothing to do.
type idleUsage struct{ memory, goroutines, cpu float64 }

// crdFigure loads CRDs and runs all steps on each set.
func crdFigure(s settings) figure {
	if s.crdTimes > 0 {
		return crdFigureOf("crds", s.crdSteps, s.crdTimes)
	}
	return crdFigureOf("crds", s.crdSteps, 1, 4)
}

// crdFigureOf runs steps on sets, which repeat the archive so many times.
func crdFigureOf(name string, steps []crdStep, sets ...int) figure {
	f := figure{name: name}
	for _, times := range sets {
		for _, step := range steps {
			for _, row := range step.rows(goalsOf[times]) {
				row.name = fmt.Sprintf("CRDs x%d: %s", times, row.name)
				f.rows = append(f.rows, row)
			}
		}
	}
	f.measure = func(ctx context.Context, b *bench, side side) (values []float64, err error) {
		for _, times := range sets {
			measured, err := b.measureCRDs(ctx, side, times, steps)
			if err != nil {
				return nil, err
			}
			values = append(values, measured...)
		}
		return values, nil
	}
	return f
}

// measureCRDs runs steps on one set. A step that fails or exceeds the limit has no
// values, and a note with the reason.
func (b *bench) measureCRDs(ctx context.Context, side side, times int, steps []crdStep) (values []float64, err error) {
	set, err := readDefinitions(ctx, b.crdArchive, times)
	if err != nil {
		return nil, err
	}
	rows := 0
	for _, step := range steps {
		rows += len(step.rows(goalsOf[times]))
	}
	err = b.withFixture(ctx, side, func(f fixture) error {
		r := &crdRun{fixture: f, bench: b, side: side, set: set}
		if err := pause(ctx, b.settle); err != nil {
			return err
		}
		var err error
		if r.empty, err = r.idle(ctx); err != nil {
			return err
		}
		values, err = r.steps(ctx, steps, goalsOf[times])
		return err
	})
	if err != nil {
		if ctx.Err() != nil || len(values) == 0 {
			return nil, err
		}
		b.note("%d CRDs, %s: %v", len(set), side.name, err) // the values are of the time before
	}
	return append(values, missing(rows-len(values))...), nil
}

// steps returns the values of the steps. With an error it returns those of the steps
// before.
func (r *crdRun) steps(ctx context.Context, steps []crdStep, goals crdGoals) (values []float64, err error) {
	for _, step := range steps {
		measured, failure, err := r.step(ctx, step, goals)
		if err != nil {
			return values, err
		}
		values = append(values, measured...)
		if err := r.alive(); err != nil {
			return values, err
		}
		if failure != nil && step.required {
			return values, fmt.Errorf("no steps after %q: they need it", step.name)
		}
	}
	return values, nil
}

// missing returns values of n rows that were not measured.
func missing(n int) []float64 { return slices.Repeat([]float64{math.NaN()}, n) }

// step measures a step within the limit and prints its values beside the goals. failure
// is why there are none. The error is that of ctx.
func (r *crdRun) step(ctx context.Context, step crdStep, goals crdGoals) (measured []float64, failure, err error) {
	rows := step.rows(goals)
	bounded, cancel := context.WithTimeout(ctx, r.bench.crdLimit)
	defer cancel()
	measured, failure = step.measure(r, bounded)
	if failure != nil {
		if ctx.Err() != nil {
			return nil, nil, failure
		}
		if bounded.Err() != nil {
			failure = fmt.Errorf("not finished within %s (-crd-limit)", r.bench.crdLimit)
		}
		r.bench.note("%d CRDs, %s: %s: %v", len(r.set), r.side.name, rows[0].name, failure)
		measured = missing(len(rows))
	}
	for i, row := range rows {
		r.bench.say("%d CRDs, %s: %s: %s (goal %s)", len(r.set), r.side.name, row.name, row.unit.format(measured[i]), cmp.Or(row.target(), "none"))
	}
	return measured, failure, nil
}

// idle watches the server for a while.
func (r *crdRun) idle(ctx context.Context) (idleUsage, error) {
	before, after, span, err := r.watched(ctx, r.bench.idle)
	if err != nil {
		return idleUsage{}, err
	}
	goroutines, err := r.goroutines(ctx)
	return idleUsage{after.anonymous, goroutines, (after.cpu - before.cpu) / span * 100}, err
}

// memory is the anonymous memory of all processes.
func (r *crdRun) memory() (float64, error) {
	used, err := r.usage()
	return used.anonymous, err
}

// peak is the highest anonymous memory of all processes during do.
func (r *crdRun) peak(do func() error) (float64, error) {
	if err := r.resetPeaks(); err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	return r.highest()
}

// highest is the highest memory since the start of the processes, or that of peak. All
// processes must run: what others took is not known.
func (r *crdRun) highest() (float64, error) {
	highest, ended, err := r.cluster.peak()
	if err == nil && ended > 0 {
		err = r.alive()
	}
	return highest, err
}

// processorTime is the processor time, in seconds, of all processes during do.
func (r *crdRun) processorTime(do func() error) (float64, error) {
	before, err := r.usage()
	if err == nil {
		err = do()
	}
	if err != nil {
		return 0, err
	}
	after, err := r.usage()
	return after.cpu - before.cpu, err
}

// grown is by how much the memory of all processes rises during do, and the time
// that do takes.
func (r *crdRun) grown(do func() error) (bytes, seconds float64, err error) {
	before, err := r.memory()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	highest, err := r.peak(func() error {
		defer func() { seconds = since(began) }()
		return do()
	})
	return max(0, highest-before), seconds, err
}

// awaitAbsent returns when the CRD is deleted.
func (r *crdRun) awaitAbsent(ctx context.Context, d definition) error {
	for {
		_, err := r.accept(ctx, crdsPath+"/"+d.name, metadataAccept)
		var status *statusError
		switch {
		case errors.As(err, &status) && status.code == http.StatusNotFound:
			return nil
		case err != nil:
			return err
		}
		if err := pause(ctx, crdPoll); err != nil {
			return fmt.Errorf("%s is not gone: %w", d.name, err)
		}
	}
}

// grownAndLeft is [crdRun.grown], and how much of the memory is left a minute after.
func (r *crdRun) grownAndLeft(ctx context.Context, do func() error) (bytes, seconds, left float64, err error) {
	before, err := r.memory()
	if err != nil {
		return 0, 0, 0, err
	}
	if bytes, seconds, err = r.grown(do); err != nil {
		return 0, 0, 0, err
	}
	if err := pause(ctx, afterwards); err != nil {
		return 0, 0, 0, err
	}
	after, err := r.memory()
	return bytes, seconds, max(0, after-before), err
}
