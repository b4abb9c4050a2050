package backup

import (
	"context"
	"log/slog"
	"testing"
)

// TestNoTurnForEndedRequests: a stop ends requests that wait for a turn, and gives them
// the turn of another one.
func TestNoTurnForEndedRequests(t *testing.T) {
	a := NewMaker(MakerConfig{Log: slog.New(slog.DiscardHandler)})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // select takes any of the channels that are ready
		if _, err := a.TakeTurn(ended); err == nil {
			t.Fatal("the turn is taken")
		}
	}
	release, err := a.TakeTurn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	release()
}
