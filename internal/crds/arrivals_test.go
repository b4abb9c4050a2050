package crds

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// TestArrivals: the log has one line for many CRDs that are established in a series, and
// none for few.
func TestArrivals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &bytes.Buffer{}
		a := newArrivals(slog.New(slog.NewTextHandler(log, nil)), func() int { return 777 })
		ctx, cancel := context.WithCancel(t.Context())
		go a.run(ctx)
		named, served := &apiextensionsv1.CustomResourceDefinition{}, &apiextensionsv1.CustomResourceDefinition{}
		served.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
		series := func(count int) string {
			log.Reset()
			for range count {
				a.changed(nil, named) // another server has accepted the names
				a.changed(named, served)
				a.changed(served, served)
				time.Sleep(10 * time.Millisecond)
				a.changed(served, nil)
			}
			time.Sleep(2 * arrivalPause)
			synctest.Wait()
			return log.String()
		}
		if got := series(manyArrivals - 1); got != "" {
			t.Errorf("%d CRDs are logged: %s", manyArrivals-1, got)
		}
		if got := series(3 * manyArrivals); strings.Count(got, "\n") != 1 || !strings.Contains(got, "new=300 all=777 took=2.99s") {
			t.Errorf("300 CRDs: %s", got)
		}
		cancel()
		synctest.Wait()
	})
}
