package controllers

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kube-hyper-mini.io/kube-hyper-mini/internal/progress"
)

// migration returns one with the conditions that are true.
func migration(resource string, conditions ...migrationv1beta1.MigrationConditionType) *migrationv1beta1.StorageVersionMigration {
	m := &migrationv1beta1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{Name: "m"}}
	m.Spec.Resource = metav1.GroupResource{Group: "example.com", Resource: resource}
	for _, condition := range conditions {
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: string(condition), Status: metav1.ConditionTrue, Message: "the reason"})
	}
	return m
}

type answered struct {
	code int
	err  error
}

func (a answered) RoundTrip(*http.Request) (*http.Response, error) {
	if a.err != nil {
		return nil, a.err
	}
	return &http.Response{StatusCode: a.code}, nil
}

// TestMigrationProgress: the terminal shows a migration while it runs, the log its end.
func TestMigrationProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log, screen bytes.Buffer
		ctx, cancel := context.WithCancel(progress.With(t.Context(), progress.New(&screen, func() int { return 100 })))
		m := newMigrationProgress(slog.New(slog.NewTextHandler(&log, nil)), func(_ context.Context, resource schema.GroupResource) (int64, error) {
			if resource.Resource != "widgets" {
				return 0, errors.New("it cannot be listed")
			}
			return 10, nil
		})
		go m.run(ctx)
		handler := m.handler()
		answer := func(method, path string, a answered) {
			r, _ := http.NewRequest(method, "https://localhost"+path, nil)
			_, _ = m.countRewritten(a).RoundTrip(r)
		}
		send := func(method, path string, err error) { answer(method, path, answered{http.StatusOK, err}) }
		wait := func() {
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		const path = "/apis/example.com/v1/namespaces/a/widgets/w"
		running, ended, failed := migrationv1beta1.MigrationRunning, migrationv1beta1.MigrationSucceeded, migrationv1beta1.MigrationFailed

		handler.OnAdd(migration("widgets", running, ended), true) // of another process
		handler.OnAdd(migration("widgets"), false)
		wait()
		if screen.Len() > 0 || log.Len() > 0 {
			t.Errorf("nothing runs: %q, %q", screen.String(), log.String())
		}
		handler.OnUpdate(nil, migration("widgets", running))
		handler.OnUpdate(nil, migration("widgets", running))
		send(http.MethodPatch, path, nil)
		send(http.MethodPatch, path, nil)
		send(http.MethodPatch, path, errors.New("no connection"))
		answer(http.MethodPatch, path, answered{code: http.StatusConflict})
		answer(http.MethodPatch, path, answered{code: http.StatusTooManyRequests})
		send(http.MethodGet, path, nil)
		send(http.MethodPatch, "/apis/example.com/v1/gadgets/w", nil)
		wait()
		if !strings.Contains(screen.String(), "migrating stored objects: widgets.example.com 2 of 10, 1s") {
			t.Errorf("the terminal shows %q", screen.String())
		}
		handler.OnUpdate(nil, migration("widgets", running, ended))
		wait()
		if !strings.Contains(log.String(), `level=INFO msg="a storage version migration has ended" name=m resource=widgets.example.com rewritten=2 took=2s`) {
			t.Errorf("the log: %s", log.String())
		}
		shown := screen.Len()
		wait()
		if screen.Len() != shown {
			t.Error("the terminal shows a migration that has ended")
		}

		handler.OnUpdate(nil, migration("gadgets", running))
		wait()
		if !strings.Contains(screen.String(), "migrating stored objects: gadgets.example.com 0, 1s") {
			t.Errorf("objects that cannot be counted: the terminal shows %q", screen.String())
		}
		handler.OnUpdate(nil, migration("gadgets", running, failed))
		if !strings.Contains(log.String(), `level=WARN msg="a storage version migration failed"`) || !strings.Contains(log.String(), `error="the reason"`) {
			t.Errorf("the log: %s", log.String())
		}
		handler.OnUpdate(nil, migration("gadgets", running))
		handler.OnDelete(migration("gadgets", running))
		wait()
		cancel()
		synctest.Wait()
	})
}
