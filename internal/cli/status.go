package cli

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"

	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
)

func newStatus() *cobra.Command {
	flags := &clientFlags{}
	var output format
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print whether the server is ready, since when, and what it holds",
		Long: `Print whether the server is ready, since when, and what it holds:
memory, database, types and objects, remote servers, backups, certificates, and the
warnings of the last hour.

A server whose database is full is ready: it serves reads and deletions. The line
"read-only" has the reason and the remedy. "kube-hyper-mini doctor" looks for what
is wrong, also on a stopped server.

Exit codes: 0 ready, 3 not ready or not running.`,
		Example: `  kube-hyper-mini status
  watch kube-hyper-mini status
  kube-hyper-mini status --wait 30s -o json
  kube-hyper-mini status --kubeconfig admin.kubeconfig`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.check(); err != nil {
				return usageError(err)
			}
			status, err := awaitStatus(cmd, flags, limit)
			if err != nil {
				return reportStopped(cmd, err, output)
			}
			err = output.write(cmd.OutOrStdout(), status, func(w io.Writer) error { return printStatus(w, status) })
			if err == nil && !status.Ready {
				return &exitError{ExitNotReady, errors.New("not ready: " + status.Reason)}
			}
			return err
		},
	}
	flags.addAdmin(cmd.Flags())
	output.add(cmd)
	addDuration(cmd.Flags(), &limit, "wait", "wait at most this time for the server to become ready")
	return cmd
}

// awaitStatus queries the status until the server is ready or the time is over.
func awaitStatus(cmd *cobra.Command, flags *clientFlags, limit time.Duration) (status *admin.Status, err error) {
	var exit *exitError
	var data []byte
	_ = wait.PollUntilContextTimeout(cmd.Context(), 100*time.Millisecond, limit, true,
		func(context.Context) (bool, error) {
			if data, err = flags.read(cmd); err == nil {
				status, err = admin.QueryStatus(cmd.Context(), data)
			}
			// Waiting does not correct the configuration.
			return err == nil && status.Ready || errors.As(err, &exit) && exit.code == ExitUsage, nil
		})
	if err != nil && !errors.As(err, &exit) {
		err = flags.unanswered(err)
	}
	if err == nil && status.Server == "" { // a control plane listens on no address
		status.Server, err = flags.url(cmd, data)
	}
	return status, err
}

// reportStopped prints the status of a server that does not answer, for programs
// that read it, and returns the error.
func reportStopped(cmd *cobra.Command, err error, output format) error {
	var exit *exitError
	if output == "text" || !errors.As(err, &exit) || exit.code != ExitNotReady {
		return err
	}
	return errors.Join(err, output.write(cmd.OutOrStdout(), map[string]any{"ready": false, "reason": err.Error()}, nil))
}
