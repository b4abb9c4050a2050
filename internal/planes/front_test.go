package planes

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLargeBodies: the bound of what a connection of the host sends without a request does not
// count the requests to control planes.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	maps := h.create(t, "acme", nil).CoreV1().ConfigMaps("default")
	for i := range 40 { // ten times the bound
		o := configMap(fmt.Sprintf("map-%d", i))
		o.Data = map[string]string{"key": strings.Repeat("x", 100<<10)}
		if _, err := maps.Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatalf("the request %d: %v", i, err)
		}
	}
}
