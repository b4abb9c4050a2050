package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"kube-hyper-mini.io/kube-hyper-mini/internal/help"
	"kube-hyper-mini.io/kube-hyper-mini/internal/version"
)

// newMan returns the command with which packages are built.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write a manual page for each command and topic into DIR/man1 and DIR/man7",
		Hidden: true,
		Args:   exactly("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := writeManual(cmd.Root(), args[0]); err != nil {
				return fmt.Errorf("write the manual pages: %w", err)
			}
			return nil
		},
	}
}

// writeManual makes the directories and their pages.
func writeManual(root *cobra.Command, dir string) error {
	commands, topics := filepath.Join(dir, "man1"), filepath.Join(dir, "man"+help.Section)
	for _, dir := range []string{commands, topics} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	source := "kube-hyper-mini " + version.Release()
	for _, topic := range help.Topics() {
		if err := os.WriteFile(filepath.Join(topics, topic.ManualFile()), topic.Manual(source), 0o644); err != nil {
			return err
		}
	}
	root.InitDefaultCompletionCmd()
	root.DisableAutoGenTag = true // it would put the date of the build into each page
	return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: source, Manual: "kube-hyper-mini"}, commands)
}
