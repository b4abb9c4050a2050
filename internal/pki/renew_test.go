package pki

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// startRenewing runs Renew until the test ends.
func startRenewing(t *testing.T, s *Store, done func([]Change, error)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Renew(ctx, done)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	synctest.Wait() // it has begun to wait
}

// TestOverlapEndsOnTime: the old authority is not trusted any more when an overlap that
// began while the renewer waited is over.
func TestOverlapEndsOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := created(t)
		startRenewing(t, s, func(_ []Change, err error) {
			if err != nil {
				t.Error(err)
			}
		})
		rotate(t, s, "client", 10*time.Minute)
		time.Sleep(10*time.Minute - time.Second)
		synctest.Wait()
		if trusted := bundle(t, s, ClientCA); len(trusted) != 2 {
			t.Errorf("in the overlap, %d are trusted", len(trusted))
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if trusted := bundle(t, s, ClientCA); len(trusted) != 1 {
			t.Errorf("after the overlap, %d are trusted", len(trusted))
		}
	})
}

// TestFailedRevocationIsRepeated: a new administrator's certificate that could not be made
// is made when the cause is removed.
func TestFailedRevocationIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := created(t)
		old := certificate(t, s, Admin)
		failures := 0
		startRenewing(t, s, func(_ []Change, err error) {
			if err != nil {
				failures++
			}
		})
		blocked := s.Cert(APIServer)
		if err := errors.Join(os.Rename(blocked, blocked+".kept"), os.Mkdir(blocked, 0o700)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.RevokeAdmin(); err == nil || !s.Revoked(old) || !certificate(t, s, Admin).Equal(old) {
			t.Fatalf("the certificate is replaced, or it is not revoked: %v", err)
		}
		time.Sleep(checkInterval / 2)
		synctest.Wait()
		if failures != 1 {
			t.Errorf("in half a minute, %d attempts have failed", failures)
		}
		if err := errors.Join(os.Remove(blocked), os.Rename(blocked+".kept", blocked)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(checkInterval)
		synctest.Wait()
		if certificate(t, s, Admin).Equal(old) {
			t.Error("the revoked certificate was not replaced")
		}
	})
}
