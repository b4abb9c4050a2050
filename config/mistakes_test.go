package config

import (
	"strings"
	"testing"
)

// TestAllMistakesAtOnce: wrong forms and wrong values are reported together, in the order of
// the lines, without what follows from another mistake.
func TestAllMistakesAtOnce(t *testing.T) {
	_, _, err := Load(write(t, header+`serving:
  bindAddress: localhost
  prot: 6443
  certFile: /dev/null
  keyFile: 12
  extraSANs: [1, "not ok!"]
etcd:
  embedded: {quotaBackend: 1Mi, fsync: &wrong "no"}
  external: {endpoints: [&endpoint "http://a:2379/x", *endpoint]}
manifests: {required: true, waitForReady: *wrong}
kubeconfig: {mode: "0888"}
logging: {format: xml, verbosity: "11"}
a: 1
`))
	if err == nil {
		t.Fatal("it was accepted")
	}
	want := []string{
		"4: serving.bindAddress", "5: serving.prot", "7: serving.keyFile", "8: serving.extraSANs[0]", "10: etcd.embedded.quotaBackend", "10: etcd.embedded.fsync",
		"11: etcd.external.endpoints[0]", "11: etcd.external.endpoints[1]", "10: manifests.waitForReady", "13: kubeconfig.mode", "14: logging.format", "14: logging.verbosity", "15: a",
	}
	lines, previous := strings.Split(err.Error(), "\n"), ""
	if len(lines) != len(want) {
		t.Errorf("%d errors, want %d", len(lines), len(want))
	}
	for _, text := range want {
		found := false
		for _, line := range lines {
			found = found || strings.Contains(line, "config.yaml:"+text+": ")
		}
		if !found {
			t.Errorf("no error at %s", text)
		}
	}
	for _, line := range lines {
		number := strings.SplitN(line, ":", 3)[1]
		if len(number) < len(previous) || len(number) == len(previous) && number < previous {
			t.Errorf("line %s comes after line %s", number, previous)
		}
		previous = number
	}
	if t.Failed() {
		t.Log(err)
	}
}
