package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// archived is an archive of a server with the Widget "one" in the namespace default.
func (r *runTest) archived() string {
	r.t.Helper()
	archive := filepath.Join(r.scratch, "archive.tar.gz")
	save := fmt.Sprintf(`"$KUBECTL" create -n default -f %q >&2 && %q backup save --data-dir "$KUBE_HYPER_MINI_DATA_DIR" %q >&2`,
		filepath.Join(harness.Root(r.t), "config/examples/widget.yaml"), harness.Binary(r.t), archive)
	if _, stderr, code := r.run("--crds", "../config/examples/widgets.yaml", "--", "sh", "-c", save); code != 0 {
		r.t.Fatalf("%d: %s", code, stderr)
	}
	return archive
}

// TestRunFromAnArchive: a run has the objects of the archive, and what it changes stays its own.
func TestRunFromAnArchive(t *testing.T) {
	r := newRunTest(t)
	archive := r.archived()
	for range 2 {
		stdout, stderr, code := r.run("--from", archive, "--", "sh", "-c",
			`"$KUBECTL" get widgets -n default one -o jsonpath={.spec.size} && "$KUBECTL" delete widgets --all -n default >&2`)
		if stdout != "3" || code != 0 {
			t.Errorf("%d: %s%s", code, stdout, stderr)
		}
	}
	if err := r.left(); err != nil {
		t.Error(err)
	}
}

// TestRunFromAnUnusableArchive: each has its own message, and nothing is left.
func TestRunFromAnUnusableArchive(t *testing.T) {
	r := newRunTest(t)
	archive := r.archived()
	for name, test := range map[string]struct {
		change func([]byte) []byte
		says   string
	}{
		"of a newer release": {func(data []byte) []byte { return newerArchive(t, data) }, "it was made by kube-hyper-mini"},
		"truncated":          {func(data []byte) []byte { return data[:len(data)/2] }, "the backup is damaged"},
	} {
		data, err := os.ReadFile(archive)
		if err != nil {
			t.Fatal(err)
		}
		changed := filepath.Join(r.scratch, "changed.tar.gz")
		if err := os.WriteFile(changed, test.change(data), 0o600); err != nil {
			t.Fatal(err)
		}
		stdout, stderr, code := r.run("--from", changed, "--", "echo", "never")
		if code != harness.ExitFailure || stdout != "" || !strings.Contains(stderr, "start from "+changed) || !strings.Contains(stderr, test.says) {
			t.Errorf("%s: it ended with %d:\n%s%s", name, code, stdout, stderr)
		}
	}
	if err := r.left(); err != nil {
		t.Error(err)
	}
}

// newerArchive is the archive as a release with a newer Kubernetes would have made it.
func newerArchive(t *testing.T, data []byte) []byte {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	compressing := gzip.NewWriter(&out)
	from, to := tar.NewReader(compressed), tar.NewWriter(compressing)
	for {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		if header.Name == "manifest.json" {
			version := harness.KubernetesVersion(t)
			content = bytes.Replace(content, []byte(version), []byte("v1.99.0"), 1)
			header.Size = int64(len(content))
		}
		if err := to.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := to.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(to.Close(), compressing.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
