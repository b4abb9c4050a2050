package controllers

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
)

// allBuiltIn are the types of a server that serves all built-in types and no others.
type allBuiltIn struct{}

func (allBuiltIn) Serves(schema.GroupVersionResource) bool { return true }
func (allBuiltIn) Remote(schema.GroupVersion) bool         { return false }
func (allBuiltIn) OnChange(func()) func()                  { return func() {} }
func (allBuiltIn) Definitions() []string                   { return nil }

// TestStopDuringTheStart: the shared informers may end before the controllers are built.
func TestStopDuringTheStart(t *testing.T) {
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	ended := make(chan struct{})
	close(ended)
	factory.Core().V1().ResourceQuotas().Informer().Run(ended)
	ctx, cancel := context.WithCancel(t.Context())
	cfg := Config{
		Client: &rest.Config{Host: "https://apiserver.invalid"}, Types: allBuiltIn{}, Informers: factory,
		Selection: Names(), Log: slog.New(slog.DiscardHandler), Files: Files{Changed: func() <-chan struct{} { return nil }},
	}
	if err := new(Runner).Run(ctx, cfg, func() {}); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("informers that have ended: %v", err)
	}
	cancel()
	if err := new(Runner).Run(ctx, cfg, func() {}); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("a stop: %v", err)
	}
}
