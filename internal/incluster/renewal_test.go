package incluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/kubeconfig"
)

// TestRenewal: the token is renewed when a fifth of its life is left; a failure is
// reported once and tried again.
func TestRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const life = time.Hour
		start, calls := time.Now(), []time.Duration{}
		issue := func(context.Context) (*Account, error) {
			calls = append(calls, time.Since(start))
			if n := len(calls); n == 2 || n == 3 {
				return nil, errors.New("no server")
			}
			return &Account{
				Endpoint: kubeconfig.Endpoint{Server: "https://mini:6443", CA: []byte("ca")}, Namespace: "team",
				Credentials: &kubeconfig.Credentials{Token: fmt.Sprint("token ", len(calls)), Until: time.Now().Add(life)},
			}, nil
		}
		first, err := issue(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		log := &strings.Builder{}
		r := &renewal{issue: issue, dir: t.TempDir(), log: log}
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.run(ctx, first)
		}()
		time.Sleep(life)
		synctest.Wait()
		cancel()
		<-done
		renewed := life * 4 / 5
		want := []time.Duration{0, renewed, renewed + retryDelay, renewed + 2*retryDelay}
		if fmt.Sprint(calls) != fmt.Sprint(want) {
			t.Errorf("tokens were requested after %v, want %v", calls, want)
		}
		if token, err := os.ReadFile(filepath.Join(r.dir, kubeconfig.TokenFile)); err != nil || string(token) != "token 4" {
			t.Errorf("the token is %q, %v", token, err)
		}
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "renew the token: no server; trying again every 5s") {
			t.Errorf("the log is %q", got)
		}
	})
}

// TestClockOfTheServerIsBehind: tokens that have expired by this machine's clock are not
// requested without a pause.
func TestClockOfTheServerIsBehind(t *testing.T) {
	if got := due(&Account{Credentials: &kubeconfig.Credentials{Until: time.Now().Add(-time.Hour)}}); got != minDelay {
		t.Errorf("the token is renewed after %s, want %s", got, minDelay)
	}
}

// TestRefusal: an error that tells of the system's settings names them, others do not.
func TestRefusal(t *testing.T) {
	for _, err := range []error{syscall.EPERM, fmt.Errorf("clone: %w", syscall.ENOSPC), decode(mountFailure + "operation not permitted")} {
		got := refusal(err)
		if !errors.Is(got, err) || !strings.Contains(got.Error(), "user.max_user_namespaces") || !strings.Contains(got.Error(), "kubeconfig create") {
			t.Errorf("%v becomes %v", err, got)
		}
	}
	if got := refusal(decode(chrootFailure + "x")).Error(); !strings.Contains(got, "as after chroot. Run this outside of it") || strings.Contains(got, "sysctls") {
		t.Errorf("after chroot: %s", got)
	}
	for _, err := range []error{errors.New("no memory"), decode("there is no directory /var"), decode(execFailure + "exec format error")} {
		if got := refusal(err); got != err {
			t.Errorf("%v becomes %v", err, got)
		}
	}
}
