package main

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

// testStep is a step with two rows.
func testStep(name string, required bool, measure func(ctx context.Context) ([]float64, error)) crdStep {
	return crdStep{name, func(crdGoals) []row { return []row{{name: name + " first"}, {name: name + " second"}} },
		func(_ *crdRun, ctx context.Context) ([]float64, error) { return measure(ctx) }, required}
}

func works(context.Context) ([]float64, error) { return []float64{1, 2}, nil }

// TestSteps: a step that fails, or exceeds the limit, has no values and a note; the next
// ones run unless they need it.
func TestSteps(t *testing.T) {
	fails := func(context.Context) ([]float64, error) { return nil, errors.New("no such thing") }
	hangs := func(ctx context.Context) ([]float64, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for _, test := range []struct {
		name     string
		required bool
		limit    time.Duration
		measure  func(context.Context) ([]float64, error)
		want     int // values
		note     string
	}{
		{"works", true, time.Minute, works, 4, ""},
		{"fails", false, time.Minute, fails, 4, "no such thing"},
		{"takes too long", false, 10 * time.Millisecond, hangs, 4, "not finished within 10ms"},
		{"is needed and fails", true, time.Minute, fails, 2, "no such thing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var progress strings.Builder
			r := &crdRun{fixture: fixture{&cluster{}, nil}, bench: &bench{settings: settings{crdLimit: test.limit}, progress: &progress}}
			values, err := r.steps(t.Context(), []crdStep{testStep("a", test.required, test.measure), testStep("b", false, works)}, crdGoals{})
			if len(values) != test.want || (err == nil) != (test.want == 4) {
				t.Fatalf("%v, %v", values, err)
			}
			if measured := test.note == ""; math.IsNaN(values[0]) == measured || (len(r.bench.notes) == 0) != measured {
				t.Errorf("%v, notes %q", values, r.bench.notes)
			}
			if !strings.Contains(strings.Join(r.bench.notes, "\n"), test.note) || !strings.Contains(progress.String(), test.note) {
				t.Errorf("notes %q, printed\n%s", r.bench.notes, &progress)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := &crdRun{fixture: fixture{&cluster{}, nil}, bench: &bench{settings: settings{crdLimit: time.Minute}, progress: &strings.Builder{}}}
	if _, err := r.steps(ctx, []crdStep{testStep("a", false, hangs)}, crdGoals{}); !errors.Is(err, context.Canceled) {
		t.Errorf("after an interrupt: %v", err)
	}
}

func TestChooseSteps(t *testing.T) {
	for list, want := range map[string]int{"": len(crdSteps), "load": 1, "in-use": 2, "delete,restart": 3} {
		if steps, err := chooseSteps(list); err != nil || len(steps) != want || steps[0].name != "load" {
			t.Errorf("%q: %d steps, %v", list, len(steps), err)
		}
	}
	if _, err := chooseSteps("inuse"); err == nil || !strings.Contains(err.Error(), "in-use") {
		t.Errorf("got %v", err)
	}
}
