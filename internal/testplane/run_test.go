//go:build !windows

package testplane

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// TestCommandGetsOneKubeconfig: the caller's values of the variables are replaced. A
// program in Go would use the first of two values.
func TestCommandGetsOneKubeconfig(t *testing.T) {
	t.Setenv("KUBECONFIG", "/production")
	t.Setenv("USE_EXISTING_CLUSTER", "false")
	t.Setenv("KUBE_HYPER_MINI_DATA_DIR", "/production")
	r := &runner{RunOptions: RunOptions{Config: config.Default()}, dir: &Directory{Directory: "/tmp/plane"}}
	r.Config.Kubeconfig.Path = "/tmp/plane/kubeconfig"
	var got []string
	for _, variable := range r.environment() {
		if name, _, _ := strings.Cut(variable, "="); slices.Contains([]string{"KUBECONFIG", "USE_EXISTING_CLUSTER", DataDirVariable}, name) {
			got = append(got, variable)
		}
	}
	slices.Sort(got)
	want := []string{"KUBECONFIG=/tmp/plane/kubeconfig", "KUBE_HYPER_MINI_DATA_DIR=/tmp/plane/data", "USE_EXISTING_CLUSTER=true"}
	if !slices.Equal(got, want) {
		t.Errorf("the command gets %q, want %q", got, want)
	}
}

// TestTerminatingSignalsCancel: a terminal whose size changes while manifests are
// applied must not end the run.
func TestTerminatingSignalsCancel(t *testing.T) {
	signals := make(chan os.Signal, 2)
	signals <- syscall.SIGWINCH
	signals <- syscall.SIGTERM
	r := &runner{RunOptions: RunOptions{Signals: signals}}
	err := r.untilEnd(t.Context(), func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	var signalled *CommandError
	if !errors.As(err, &signalled) || signalled.Code != 128+int(syscall.SIGTERM) {
		t.Errorf("it ended with %v, want SIGTERM", err)
	}
}
