package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestRunWhoseServerFails: the command is ended, and nothing is left.
func TestRunWhoseServerFails(t *testing.T) {
	r := newRunTest(t)
	type object map[string]any
	var objects []object
	for range 12 {
		objects = append(objects, object{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"generateName": "large-", "namespace": "default"},
			"data": object{"text": strings.Repeat("x", 900_000)},
		})
	}
	list, err := json.Marshal(object{"apiVersion": "v1", "kind": "List", "items": objects})
	if err == nil {
		err = os.WriteFile(filepath.Join(r.scratch, "list.json"), list, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := r.run("--", "sh", "-c", saveKubeconfig+`
		rm -r "$KUBE_HYPER_MINI_DATA_DIR/etcd/member/wal"
		while :; do "$KUBECTL" create -f "$SCRATCH/list.json" >/dev/null 2>&1; done`) // until a file of etcd's log is full
	if code != harness.ExitFailure || !strings.Contains(stderr, "the server ended, and COMMAND was ended with it: ") {
		t.Errorf("it ended with %d:\n%s%s", code, stdout, stderr)
	}
	if err := r.left(); err != nil {
		t.Error(err)
	}
	if r.server(filepath.Join(r.scratch, "kubeconfig")).listens() {
		t.Error("its port is still open")
	}
}
