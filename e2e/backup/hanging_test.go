package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// lags waits until the status says that the journal lacks changes.
func lags(t *testing.T, s *harness.Server) {
	t.Helper()
	harness.Eventually(t, "the status has the lag", func() error {
		var status struct {
			Journal struct {
				LagRevisions, SpoolBytes int64
				LagSeconds               float64
			}
		}
		if err := json.Unmarshal([]byte(s.Status("-o", "json")), &status); err != nil {
			return err
		}
		if a := status.Journal; a.LagRevisions == 0 || a.LagSeconds == 0 || a.SpoolBytes == 0 {
			return fmt.Errorf("%+v", a)
		}
		return nil
	})
}

// oneChain expects that the list has one chain without gaps, which has the revision.
// Events may have followed.
func oneChain(t *testing.T, list, revision string) {
	t.Helper()
	var windows []struct {
		LastRevision int64
		Gaps         []string
	}
	last, err := strconv.ParseInt(revision, 10, 64)
	if err = errors.Join(err, json.Unmarshal([]byte(list), &windows)); err != nil {
		t.Fatal(err)
	}
	if len(windows) != 1 || windows[0].LastRevision < last || len(windows[0].Gaps) > 0 {
		t.Errorf("the journal has %+v, want one chain with revision %d", windows, last)
	}
}

// TestJournalInS3WithoutAnswers: while S3 accepts requests and does not answer, writes go on,
// the status has the lag, and the server stops. Afterwards the journal catches up.
func TestJournalInS3WithoutAnswers(t *testing.T) {
	t.Parallel()
	store := harness.StartS3(t)
	gate := harness.NewGate(t, store.Endpoint)
	config := harness.ConfigFile(t, fmt.Sprintf("journal: {destination: %q, endpoint: %q, region: us-east-1, credentialsFile: %q, interval: 100ms}\n",
		store.URL("mini"), gate.URL, store.CredentialsFile))
	s := harness.Start(t, "--config", config)
	journaled(t, s)
	gate.Hang(true)
	create(t, s, "while-it-hangs")
	lags(t, s)
	if code := s.Stop(); code != harness.ExitOK {
		t.Errorf("the server ended with exit code %d", code)
	}
	gate.Hang(false)
	s = harness.StartIn(t, s.Dir, "--config", config)
	last := create(t, s, "last")
	journaled(t, s)
	out, code := harness.CLIWith(t, store.Env, "backup", "list", "--from", store.URL("mini"), "--endpoint", store.Endpoint, "--region", "us-east-1", "-o", "json")
	if code != harness.ExitOK {
		t.Fatalf("backup list exits with %d: %s", code, out)
	}
	oneChain(t, out, last.ResourceVersion)
}
