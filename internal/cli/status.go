package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
)

func newStatus() *cobra.Command {
	flags := &adminFlags{}
	var output string
	var wait time.Duration
	var watch bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print whether the server is ready, since when, and the state of its components",
		Long: `Print whether the server is ready, since when, and the state of its components:
memory, database, types and objects, remote servers, backups, certificates, and the
warnings of the last hour.

A server whose database is full is ready: it serves reads and deletions. The line
"read-only" has the reason and the remedy. "kube-hyper-mini doctor" looks for what
is wrong, also on a stopped server.

Exit codes: 0 ready, 3 not ready or not running. With --watch: 0 after a signal.`,
		Example: `  kube-hyper-mini status
  kube-hyper-mini status --watch
  kube-hyper-mini status --wait 30s -o json
  kube-hyper-mini status --kubeconfig admin.kubeconfig`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.checkAdmin(); err != nil {
				return usageError(err)
			}
			if watch && wait > 0 {
				return usageError(errors.New("--watch and --wait exclude each other: give one"))
			}
			if watch {
				return watchStatus(cmd, flags, output)
			}
			status, err := awaitStatus(cmd, flags, wait)
			if err != nil {
				return reportStopped(cmd, err, output)
			}
			if err := printStatus(cmd.OutOrStdout(), status, output); err != nil {
				return err
			}
			if !status.Ready {
				return &exitError{ExitNotReady, errors.New("not ready: " + status.Reason)}
			}
			return nil
		},
	}
	flags.addAdmin(cmd.Flags())
	outputFlag(cmd, &output)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "print the status every two seconds until a signal comes")
	addDuration(cmd.Flags(), &wait, "wait", "wait at most this time for the server to become ready")
	return cmd
}

// awaitStatus queries the status until the server is ready or the time is over.
func awaitStatus(cmd *cobra.Command, flags *adminFlags, wait time.Duration) (*admin.Status, error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), wait)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		_, data, err := flags.read(cmd)
		if err == nil {
			var status *admin.Status
			if status, err = admin.QueryStatus(cmd.Context(), data); err == nil && (status.Ready || wait == 0) {
				return status, nil
			} else if err == nil && ctx.Err() != nil {
				return status, nil
			}
		}
		var exit *exitError
		if errors.As(err, &exit) && exit.code == ExitUsage {
			return nil, err // waiting does not correct the configuration
		}
		select {
		case <-ctx.Done():
			if err == nil {
				err = errors.New("the server is not ready")
			}
			if exit != nil {
				return nil, err
			}
			return nil, &exitError{ExitNotReady, err}
		case <-ticker.C:
		}
	}
}

// reportStopped prints the status of a server that does not answer, for programs
// that read it, and returns the error.
func reportStopped(cmd *cobra.Command, err error, output string) error {
	var exit *exitError
	if output == "text" || !errors.As(err, &exit) || exit.code != ExitNotReady {
		return err
	}
	return errors.Join(err, printValue(cmd.OutOrStdout(), stoppedStatus{Reason: err.Error()}, output))
}

// stoppedStatus is the status of a server that does not answer.
type stoppedStatus struct {
	Ready  bool   `json:"ready"`
	Reason string `json:"reason"`
}

// watchInterval is the time between two prints of --watch.
const watchInterval = 2 * time.Second

// watchStatus prints the status in each interval until the command's context ends. A
// terminal is cleared before.
func watchStatus(cmd *cobra.Command, flags *adminFlags, output string) error {
	out := cmd.OutOrStdout()
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for first := true; ; first = false {
		text := &strings.Builder{}
		if err := describeOnce(cmd, flags, text, output); err != nil {
			return err
		}
		switch {
		case cmd.Context().Err() != nil:
			return nil
		case output == "text" && isTerminal(out):
			text = prefixed("\x1b[H\x1b[2J", text)
		case output == "yaml" && !first:
			text = prefixed("---\n", text)
		case output == "text" && !first:
			text = prefixed("\n", text)
		}
		if _, err := io.WriteString(out, text.String()); err != nil {
			return fmt.Errorf("print the status: %w", err)
		}
		select {
		case <-cmd.Context().Done():
			return nil
		case <-ticker.C:
		}
	}
}

func prefixed(prefix string, text *strings.Builder) *strings.Builder {
	whole := &strings.Builder{}
	whole.WriteString(prefix + text.String())
	return whole
}

// describeOnce writes the status, or why there is none, to w. Its errors are those of
// the command line and the configuration.
func describeOnce(cmd *cobra.Command, flags *adminFlags, w io.Writer, output string) error {
	status, err := awaitStatus(cmd, flags, 0)
	var exit *exitError
	switch {
	case err == nil:
		return printStatus(w, status, output)
	case !errors.As(err, &exit) || exit.code != ExitNotReady:
		return err
	case output == "text":
		_, err = fmt.Fprintf(w, "not ready  %s\n", err)
		return err
	}
	return printValue(w, stoppedStatus{Reason: err.Error()}, output)
}
