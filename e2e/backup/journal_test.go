package backup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// journaling is the configuration of a server with a journal.
func journaling(t *testing.T, destination string) string {
	t.Helper()
	return harness.ConfigFile(t, fmt.Sprintf("journal: {destination: %q, interval: 100ms}\n", destination))
}

// journaled waits until the journal of a server is complete.
func journaled(t *testing.T, s *harness.Server) {
	t.Helper()
	harness.Eventually(t, "the journal has everything", func() error {
		var status struct {
			Journal *struct {
				Chain        int
				LagRevisions int64
				LagSeconds   float64
				Error        string
			}
		}
		if err := s.ReadStatus(&status); err != nil {
			return err
		}
		if a := status.Journal; a == nil || a.Chain == 0 || a.LagRevisions != 0 || a.LagSeconds != 0 {
			return fmt.Errorf("%+v", a)
		}
		return nil
	})
}

// lastRevision returns the number that follows the expression in the output: the last revision of a
// journal. It has that of the object, and may have later ones of the server itself. Where a chain
// begins depends on when its base was read.
func lastRevision(t *testing.T, out, text string, object *corev1.ConfigMap) string {
	t.Helper()
	found := regexp.MustCompile(`\b` + text + `(\d+)`).FindStringSubmatch(out)
	if found == nil {
		t.Fatalf("%q with a number is not in:\n%s", text, out)
	}
	last, err := strconv.ParseInt(found[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if least, err := strconv.ParseInt(object.ResourceVersion, 10, 64); err != nil || last < least {
		t.Fatalf("the last revision is %d, and the last object has %d (%v):\n%s", last, least, err, out)
	}
	return found[1]
}

// TestJournal: a server whose disk is lost is restored to its last change and
// to any moment before.
func TestJournal(t *testing.T) {
	t.Parallel()
	destination := filepath.Join(t.TempDir(), "journal")
	config := journaling(t, destination)
	s := harness.Start(t, "--config", config)
	create(t, s, "before")
	secret(t, s)
	first := create(t, s, "first")
	journaled(t, s)
	moment := time.Now()
	last := create(t, s, "last")
	journaled(t, s)
	s.Kill()
	if err := os.RemoveAll(s.Dir); err != nil {
		t.Fatal(err)
	}
	end := lastRevision(t, harness.Runs(t, harness.ExitOK, "backup", "list", "--from", destination), `\d+ to `, last)

	has := func(s *harness.Server, name string, want bool) {
		t.Helper()
		_, err := s.Client().CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{})
		if (err == nil) != want || err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v, want %t", name, err, want)
		}
	}
	for name, flags := range map[string][]string{
		"revision": {"--revision", first.ResourceVersion},
		"at":       {"--at", moment.UTC().Format(time.RFC3339Nano)},
	} {
		dir := filepath.Join(t.TempDir(), name)
		harness.Contains(t, harness.Runs(t, harness.ExitOK, append([]string{"backup", "restore", "--data-dir", dir, "--from", destination}, flags...)...), "restored "+dir)
		earlier := harness.StartIn(t, dir)
		reads(t, earlier, "first")
		has(earlier, "last", false)
		earlier.Stop()
	}

	harness.Contains(t, harness.Runs(t, harness.ExitOK, "backup", "restore", "--data-dir", s.Dir, "--from", destination), "as of revision "+end)
	again := harness.StartIn(t, s.Dir, "--config", config)
	reads(t, again, "last")
	watchIsRefused(t, again, last.ResourceVersion)
	create(t, again, "after")
	journaled(t, again)
	harness.Contains(t, harness.Runs(t, harness.ExitOK, "backup", "list", "--from", destination), "the server was restored at revision "+end, "before chain 2: no change is recorded between ")
	again.Stop()
	harness.Contains(t, harness.Runs(t, harness.ExitOK, "backup", "restore", "--data-dir", s.Dir, "--from", destination), "chain 2", "before-restore-")
	third := harness.StartIn(t, s.Dir)
	has(third, "after", true)
}

// TestJournalInS3: the same in a bucket, encrypted, over an outage of the S3 server.
func TestJournalInS3(t *testing.T) {
	t.Parallel()
	store := harness.StartS3(t)
	gate := harness.NewGate(t, store.Endpoint)
	key := filepath.Join(t.TempDir(), "identity")
	harness.WriteFile(t, key, identity+"\n")
	config := harness.ConfigFile(t, fmt.Sprintf(`backup: {encryptTo: [%s]}
journal: {destination: %q, endpoint: %q, region: us-east-1, credentialsFile: %q, interval: 100ms}
`, recipient, store.URL("of/mini"), gate.URL, store.CredentialsFile))
	s := harness.Start(t, "--config", config)
	create(t, s, "before")
	secret(t, s)
	journaled(t, s)
	gate.Fail(true)
	create(t, s, "while-it-was-away")
	harness.Eventually(t, "the status says that the destination fails", func() error {
		if text := s.Status(); !strings.Contains(text, "FAILED: write s3://") {
			return errors.New(text)
		}
		return nil
	})
	gate.Fail(false)
	journaled(t, s)
	last := create(t, s, "last")
	journaled(t, s)
	s.Kill()
	if err := os.RemoveAll(s.Dir); err != nil {
		t.Fatal(err)
	}
	from := []string{"--from", store.URL("of/mini"), "--endpoint", store.Endpoint, "--region", "us-east-1"}
	run := func(code int, args ...string) string {
		t.Helper()
		out, got := harness.CLIWith(t, store.Env, append(args, from...)...)
		if got != code {
			t.Fatalf("%q exits with %d: %s", args, got, out)
		}
		return out
	}
	end := lastRevision(t, run(harness.ExitOK, "backup", "list"), `\d+ to `, last)
	harness.Contains(t, run(harness.ExitFailure, "backup", "restore", "--data-dir", s.Dir), "--identity")
	harness.Contains(t, run(harness.ExitOK, "backup", "restore", "--data-dir", s.Dir, "--identity", key), "as of revision "+end)
	again := harness.StartIn(t, s.Dir, "--config", config)
	reads(t, again, "last")
	reads(t, again, "while-it-was-away")
	journaled(t, again)
	harness.Contains(t, run(harness.ExitOK, "backup", "list"), "the server was restored at revision "+end)
	again.Kubectl("", "delete", "configmap", "last")
	journaled(t, again)
	harness.Contains(t, run(harness.ExitFailure, "undelete", "configmap", "last", "--data-dir", again.Dir), "--identity")
	harness.Contains(t, run(harness.ExitOK, "undelete", "configmap", "last", "--data-dir", again.Dir, "--identity", key), "created  ConfigMap")
	reads(t, again, "last")
}

// TestJournalOfAnotherServer: the journal is not written, and the server runs.
func TestJournalOfAnotherServer(t *testing.T) {
	t.Parallel()
	destination := filepath.Join(t.TempDir(), "journal")
	config := journaling(t, destination)
	journaled(t, harness.Start(t, "--config", config))
	second := harness.Start(t, "--config", config)
	second.WaitLog("one server at a time writes to it")
	harness.Contains(t, second.Status(), "FAILED", "journal.takeOver")
}

// TestRestoreFromBadInput: a refused restore changes nothing.
func TestRestoreFromBadInput(t *testing.T) {
	t.Parallel()
	dir, empty := filepath.Join(t.TempDir(), "data"), t.TempDir()
	for _, test := range []struct {
		code int
		args []string
		want string
	}{
		{harness.ExitFailure, []string{"--from", empty}, "has no journal"},
		{harness.ExitUsage, []string{"--from", empty, "file"}, "give either"},
		{harness.ExitUsage, []string{"--from", empty, "--at", "yesterday"}, "is not a time"},
		{harness.ExitUsage, []string{"--from", empty, "--at", "2126-11-21T15:04:05Z"}, "in the future"},
		{harness.ExitUsage, []string{"--from", empty, "--at", "2026-11-21T15:04:05Z", "--revision", "3"}, "exclude each other"},
		{harness.ExitUsage, []string{"--revision", "3", "file"}, "need --from"},
		{harness.ExitUsage, nil, "give either"},
	} {
		harness.Contains(t, harness.Runs(t, test.code, append([]string{"backup", "restore", "--data-dir", dir}, test.args...)...), test.want)
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("%q has made the data directory: %v", test.args, err)
		}
	}
}
