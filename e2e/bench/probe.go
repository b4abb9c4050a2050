package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// probeArgument is the first argument of this program as a probe; the second is a
// kubeconfig, and the third a user to impersonate, or empty.
const probeArgument = "probe"

// probe is a process that lists the namespaces ten times a second. It is a process of
// its own, because the clients that load a server keep the scheduler of theirs busy.
type probe struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

// startProbe returns when the probe has had a first answer.
func startProbe(ctx context.Context, kubeconfig, user string) (*probe, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, program, probeArgument, kubeconfig, user)
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		return nil, fmt.Errorf("start a probe: %w", err)
	}
	p := &probe{cmd, in, bufio.NewReader(out)}
	if _, err := p.out.ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("start a probe: %w", err), in.Close(), cmd.Wait())
	}
	return p, nil
}

// stop ends the probe and returns how long the median and the slowest answer took, in seconds.
func (p *probe) stop() (middle, slowest float64, err error) {
	closeErr := p.in.Close()
	line, readErr := p.out.ReadString('\n')
	if err := errors.Join(closeErr, readErr, p.cmd.Wait()); err != nil {
		return 0, 0, fmt.Errorf("stop a probe: %w", err)
	}
	if _, err := fmt.Sscan(line, &middle, &slowest); err != nil {
		return 0, 0, fmt.Errorf("stop a probe: %w", err)
	}
	return middle, slowest, nil
}

// runProbe is the other side of startProbe: it lists until in ends. A list that fails
// is repeated and counts until it succeeds.
func runProbe(ctx context.Context, kubeconfig, user string, in io.Reader, out io.Writer) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("read the probe's kubeconfig: %w", err)
	}
	client, err := newAPI(config)
	if err != nil {
		return err
	}
	client.user = user
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := listNamespaces(ctx, client); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, "connected"); err != nil {
		return fmt.Errorf("report the probe's start: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, in) // its end is what matters
		stop()
	}()
	var took []float64
	for began := time.Now(); ctx.Err() == nil; {
		listErr := listNamespaces(context.WithoutCancel(ctx), client)
		answered := since(began)
		_ = pause(ctx, 100*time.Millisecond) // its error ends the loop
		if listErr == nil {
			took = append(took, answered)
			began = time.Now()
		}
	}
	if _, err := fmt.Fprintln(out, median(took), slices.Max(append(took, 0))); err != nil {
		return fmt.Errorf("report the answers: %w", err)
	}
	return nil
}

func listNamespaces(ctx context.Context, client *api) error {
	if err := client.discard(ctx, http.MethodGet, "/api/v1/namespaces", nil); err != nil {
		return fmt.Errorf("list namespaces: %w", err)
	}
	return nil
}
