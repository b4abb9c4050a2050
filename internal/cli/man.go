package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"kube-hyper-mini.io/kube-hyper-mini/internal/version"
)

// newMan is for the packages; a user gets --help.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write a manual page for each command into DIR",
		Hidden: true,
		Args:   exactly("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := filepath.Clean(args[0])
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return fmt.Errorf("write the manual pages: %w", err)
			}
			root := cmd.Root()
			root.InitDefaultCompletionCmd()
			root.DisableAutoGenTag = true // it would put the date of the build into each page
			header := &doc.GenManHeader{Section: "1", Source: "kube-hyper-mini " + version.Release(), Manual: "kube-hyper-mini"}
			if err := doc.GenManTree(root, header, dir); err != nil {
				return fmt.Errorf("write the manual pages: %w", err)
			}
			return nil
		},
	}
}
