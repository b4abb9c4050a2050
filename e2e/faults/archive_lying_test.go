package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestLyingArchive: S3 confirms a segment and keeps nothing or a part of it. The server
// reports that in log, status, events, metrics and in the list of chains, and begins a new
// chain by itself, from which it is restored when it and its disk are lost.
func TestLyingArchive(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keeps func(path string) error // nil keeps nothing
		want  string
	}{
		"nothing": {nil, "and does not have it"},
		"a part": {func(path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return os.Truncate(path, info.Size()/2)
		}, "of them"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &drill{t: t, store: harness.StartS3(t)}
			d.gate = harness.NewGate(t, d.store.Endpoint)
			d.config = harness.ConfigFile(t, fmt.Sprintf("archive: {destination: %q, endpoint: %q, region: us-east-1, credentialsFile: %q, interval: 100ms}\n",
				d.store.URL("mini"), d.gate.URL, d.store.CredentialsFile))
			spoils := c.keeps
			if spoils != nil {
				spoils = func(path string) error {
					return c.keeps(filepath.Join(filepath.Dir(d.store.Dir), filepath.FromSlash(path)))
				}
			}
			d.noticesLie(spoils, c.want)
		})
	}
}

// noticesLie runs a server under load, lets S3 lie about a segment, and checks the reports
// and a restore.
func (d *drill) noticesLie(spoils func(path string) error, want string) {
	d.t.Helper()
	dir := filepath.Join(d.t.TempDir(), "data")
	server := harness.StartIn(d.t, dir, "--config", d.config)
	server.WaitLog("the archive has a new base")
	ctx, cancel := context.WithCancel(d.t.Context())
	defer cancel()
	var clients sync.WaitGroup
	defer clients.Wait()
	h, made := &historian{id: "lying"}, atomic.Int64{}
	d.historians = []*historian{h}
	clients.Go(func() { h.write(ctx, server.Client().CoreV1().ConfigMaps("default"), &made) })
	release := d.gate.Hold("/bases/")
	defer release()
	d.gate.Lie("/segments/", spoils)
	server.WaitLog("the archive begins a new chain")
	if !d.gate.Lied() {
		d.t.Error("a chain has ended before S3 has lied")
	}
	harness.Contains(d.t, server.Status(), "FAILED: ", "the destination has confirmed ", want)
	_, metrics := get(d.t, server, "/metrics")
	if errors := regexp.MustCompile(`(?m)^kube_hyper_mini_archive_errors_total ([1-9]\S*)`); !errors.MatchString(metrics) {
		d.t.Error("the metrics have no error of the archive")
	}
	release()
	d.healed(server, want)
	awaited := made.Load()
	harness.Eventually(d.t, "writes go on", func() error {
		if made.Load() < awaited+20 {
			return errors.New("not yet")
		}
		return nil
	})
	safe := reportedSafe(d.t, server)
	server.Kill()
	cancel()
	clients.Wait()
	if err := os.RemoveAll(dir); err != nil {
		d.t.Fatal(err)
	}
	out, code := harness.CLIWith(d.t, d.store.Env, "backup", "list", "--from", d.store.URL("mini"), "--endpoint", d.store.Endpoint, "--region", "us-east-1")
	if code != harness.ExitOK {
		d.t.Errorf("backup list exits with %d", code)
	}
	harness.Contains(d.t, out, "the destination has confirmed ", want, "is damaged or missing: what follows revision ")
	dir = filepath.Join(d.t.TempDir(), "data")
	d.restored, _ = d.restore(dir)
	d.check(harness.StartIn(d.t, dir), d.restored, safe)
}

// healed waits until the archive has a base again, and an event with the reason.
func (d *drill) healed(server *harness.Server, want string) {
	d.t.Helper()
	harness.Eventually(d.t, "the archive has a base again", func() error {
		var status struct {
			Archive struct {
				Chain int
				Error string
			}
		}
		if err := json.Unmarshal([]byte(server.Status("-o", "json")), &status); err != nil {
			return err
		}
		if status.Archive.Chain != 2 || status.Archive.Error != "" {
			return fmt.Errorf("%+v", status.Archive)
		}
		return nil
	})
	harness.Eventually(d.t, "an event has the reason", func() error {
		list, err := server.Client().CoreV1().Events("").List(d.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, event := range list.Items {
			if event.Reason == "ArchiveChainEnded" && strings.Contains(event.Message, want) {
				return nil
			}
		}
		return fmt.Errorf("%d events, none is ArchiveChainEnded with %q", len(list.Items), want)
	})
}
