package aggregation

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestRotationWithAnAggregatedServer: no request to it fails while
// the front proxy's authority and those of servers and clients are replaced, and
// none when the old ones are dropped.
func TestRotationWithAnAggregatedServer(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	namespace := unique("rotated")
	s.createNamespace(namespace)
	s.createFlunder(namespace, "content")
	ask := func() error {
		_, err := s.flunders(namespace).Get(background, "content", metav1.GetOptions{})
		return err
	}
	rotate := func(args ...string) {
		harness.Runs(t, harness.ExitOK, append([]string{"certs", "rotate", "--data-dir", s.Dir}, args...)...)
	}
	trusted := func() (string, error) {
		found, err := s.Client().CoreV1().ConfigMaps("kube-system").Get(background, "extension-apiserver-authentication", metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		return found.Data["requestheader-client-ca-file"], nil
	}
	old, err := trusted()
	if err != nil {
		t.Fatal(err)
	}
	underLoad(t, 0, func() {
		rotate("front-proxy")
		rotate("client")
	}, ask)
	harness.Eventually(t, "aggregated servers are told of the new authority", func() error {
		both, err := trusted()
		if err == nil && (both == old || !strings.Contains(both, strings.TrimSpace(old))) {
			err = errors.New("not yet")
		}
		return err
	})
	underLoad(t, 0, func() { rotate("front-proxy", "--finish") }, ask)
	harness.Eventually(t, "aggregated servers do not trust the old authority", func() error {
		now, err := trusted()
		if err == nil && strings.Contains(now, strings.TrimSpace(old)) {
			err = fmt.Errorf("they do: %s", now)
		}
		return err
	})
	underLoad(t, 0, func() {}, ask)
}
