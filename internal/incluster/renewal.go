package incluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/kubeconfig"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
)

// retryDelay is the time between two attempts to renew a token.
const retryDelay = 5 * time.Second

// minDelay bounds the rate of renewals if the clocks of the server and of this machine
// differ.
const minDelay = time.Second

// renewal keeps the token in a directory current.
type renewal struct {
	issue  func(context.Context) (*Account, error)
	dir    string
	log    io.Writer
	logged logging.Changes // failures
}

// run renews the token until ctx ends. account has the one that is there.
func (r *renewal) run(ctx context.Context, account *Account) {
	timer := time.NewTimer(due(account))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		renewed, err := r.issue(ctx)
		if err == nil {
			err = r.write(renewed)
		}
		switch {
		case err == nil:
			r.logged.Forget(r.dir)
			timer.Reset(due(renewed))
		case ctx.Err() != nil:
			return
		default:
			r.report(err)
			timer.Reset(retryDelay)
		}
	}
}

// due is the time until the token is renewed: when a fifth of its life is left, as the
// kubelet does.
func due(account *Account) time.Duration {
	return max(time.Until(account.Credentials.Until)*4/5, minDelay)
}

// report logs a failure, unless it is the same as the one before.
func (r *renewal) report(err error) {
	if text := err.Error(); r.logged.Changed(r.dir, text) {
		// There is nowhere else to report an error of the log.
		_, _ = fmt.Fprintf(r.log, "kube-hyper-mini in-cluster: renew the token: %s; trying again every %s\n", text,
			retryDelay)
	}
}

// sharedToken is the mode of the token, as in most pods: a program that root has started
// may become another user. Other programs cannot reach it: the temporary directory is
// the user's only, and the mount is seen by the program only.
const sharedToken = 0o644

// makeAccount makes the directory of the files, which the users of the program can read.
func makeAccount(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755) // whatever the umask
}

// write makes or replaces the files.
func (r *renewal) write(account *Account) error {
	return kubeconfig.WriteInCluster(r.dir, account.Endpoint, account.Namespace, account.Credentials, sharedToken)
}
