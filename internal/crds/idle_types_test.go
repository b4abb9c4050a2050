package crds

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestIdleTypesAreBounded: the types without requests whose memory is above the bound are
// released when another type is used, the least recently used first; a watch keeps its type.
func TestIdleTypesAreBounded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		bytes    int64
		watched  bool
		resident int
	}{
		{"no bound", 0, false, 2},
		{"below the bound", 1 << 30, false, 2},
		{"above the bound", 1, false, 1},
		{"above the bound, with a watch", 1, true, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newTestServer(t)
			s.front.idleBytes = test.bytes
			s.install(t)
			s.installGears(t)
			s.create(t, "one")
			if test.watched {
				s.watch(t, metav1.ListOptions{})
			}
			gear := widget("one")
			gear.SetKind("Gear")
			gears := widgetResource.GroupVersion().WithResource("gears")
			if _, err := s.client.Resource(gears).Namespace("default").Create(t.Context(), gear, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if resident := s.front.resident(); resident != test.resident {
				t.Errorf("%d types are in memory, want %d", resident, test.resident)
			}
			if !s.front.isResident("gears.example.com") {
				t.Error("the type in use was released")
			}
			if _, err := s.objects.Namespace("default").Get(t.Context(), "one", metav1.GetOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
}
