package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/races"
)

const (
	raceRounds = 12 // of each policy
	// raceSettle is longer than the time after which kube-controller-manager
	// looks for new types. Without it, most of its rounds end wrong.
	raceSettle   = 45 * time.Second
	racePatience = 2 * time.Minute
)

var raceRows = []row{
	{name: "foreground deletions right after the first dependents that end right, of 12", higher: true, limit: raceRounds},
	{name: "background deletions, of 12", higher: true, limit: raceRounds},
	{name: "orphaning deletions, of 12", higher: true, limit: raceRounds},
}

// measureRaces deletes owners right after the first objects of types whose CRDs
// the garbage collector knows.
func measureRaces(ctx context.Context, b *bench, s side) (values []float64, err error) {
	err = b.withFixture(ctx, s, func(f fixture) error {
		outcome, err := races.Run(ctx, f.config, "races", races.Config{
			Rounds: raceRounds, Settle: raceSettle, Dependents: 3, Patience: racePatience,
		})
		if err != nil {
			return fmt.Errorf("race deletions with creations: %w", err)
		}
		for _, wrong := range outcome.Wrong {
			b.say("%s: %s", s.name, wrong)
		}
		values = []float64{
			float64(outcome.Right[metav1.DeletePropagationForeground]), float64(outcome.Right[metav1.DeletePropagationBackground]),
			float64(outcome.Right[metav1.DeletePropagationOrphan]),
		}
		return nil
	})
	return values, err
}
