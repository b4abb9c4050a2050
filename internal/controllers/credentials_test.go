package controllers

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestTokenCleanerAwaitsTheTracking: the cleaner starts once the API server has recorded
// since when it tracks tokens.
func TestTokenCleanerAwaitsTheTracking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, done := fake.NewClientset(), make(chan struct{})
		go func() {
			defer close(done)
			awaitTokenTracking(t.Context(), client)
		}()
		time.Sleep(3 * tokenTrackingPoll)
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("it does not wait")
		default:
		}
		record := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: tokenTracking}}
		if _, err := client.CoreV1().ConfigMaps(record.Namespace).Create(t.Context(), record, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		<-done
	})
}
