package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

func newReset() *cobra.Command {
	flags := &configFlags{}
	var yes bool
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Remove the data directory: all objects, certificates and keys",
		Long: `Remove the data directory with all objects, certificates and keys, after asking.
It refuses while a server runs on it, and it refuses a directory that a server
has not made.

Objects in an external etcd cluster stay, and so does a kubeconfig that was
written to a place outside of the data directory.

Exit codes: 0 removed or nothing there, 1 refused or failed, 2 not confirmed.`,
		Example: `  kube-hyper-mini reset
  kube-hyper-mini reset --data-dir ./data --yes`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := completed(cmd, flags)
			if err != nil {
				return err
			}
			err = datadir.Removable(cfg.DataDir)
			if errors.Is(err, os.ErrNotExist) {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "there is no %s; nothing to remove\n", cfg.DataDir)
				return err
			}
			if err != nil {
				return err
			}
			if !yes {
				if err := confirm(cmd, cfg.DataDir); err != nil {
					return err
				}
			}
			if err := datadir.Remove(cfg.DataDir); err != nil {
				return err
			}
			text := "removed " + cfg.DataDir
			if _, err := os.Stat(cfg.Kubeconfig.Path); err == nil && !inside(cfg.DataDir, cfg.Kubeconfig.Path) {
				text += "; the kubeconfig " + cfg.Kubeconfig.Path + " is of no use any more"
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		},
	}
	flags.locate(cmd.Flags())
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// confirm asks on standard error, so that the answer can come from a pipe.
func confirm(cmd *cobra.Command, path string) error {
	if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "Remove %s with all objects, certificates and keys? Type yes: ", path); err != nil {
		return err
	}
	answer, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	if strings.TrimSpace(answer) != "yes" {
		return usageError(errors.New("not confirmed, nothing was removed; answer yes, or give --yes"))
	}
	return nil
}

func inside(dir, path string) bool {
	relative, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(relative)
}
