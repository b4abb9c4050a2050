//go:build unix

package faults

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestPause: a process that is paused, as on a suspended machine, continues.
func TestPause(t *testing.T) {
	t.Parallel()
	s := newSite(t, harness.Options{}, 2, 1)
	server := s.start()
	leases := server.Client().CoordinationV1().Leases("default")
	held := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "held"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("me"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: &metav1.MicroTime{Time: time.Now()}},
	}
	held, err := leases.Create(t.Context(), held, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watched, err := server.Client().CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: held.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Stop()

	server.Signal(syscall.SIGSTOP)
	wait := s.write(t.Context()) // each writer has one write that hangs
	time.Sleep(duration(t, "FAULT_PAUSE", 3*time.Second))
	server.Signal(syscall.SIGCONT)

	harness.Eventually(t, "the watch from before goes on", func() error {
		select {
		case event, open := <-watched.ResultChan():
			if !open {
				t.Fatal("the watch has ended")
			}
			if _, ok := event.Object.(*corev1.ConfigMap); !ok {
				t.Fatalf("the watch says %+v", event)
			}
			return nil
		default:
			return errors.New("nothing yet")
		}
	})
	held.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
	if _, err := leases.Update(t.Context(), held, metav1.UpdateOptions{}); err != nil {
		t.Errorf("the lease cannot be renewed: %v", err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "after-the-pause"}}
	if _, err := server.Client().CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the controllers work", func() error {
		_, err := server.Client().CoreV1().ServiceAccounts(namespace.Name).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	harness.Contains(t, server.Status(), fmt.Sprintf("pid %d", server.PID()))
	server.Kill() // ends the writers
	wait()
	s.start()
	s.check()
}
