package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/help"
)

// newHelp replaces cobra's help command and adds the topics. A topic takes precedence
// over a command of the same name, whose own help is at --help.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [TOPIC | COMMAND]",
		Short: "Show a help topic, or the help of a command",
		Long: `Show a help topic, or the help of a command. Without an argument it lists both.

A topic is written with styles to a terminal, and elsewhere as Markdown. Packages install
the topics as manual pages too, which have a pager: man kube-hyper-mini-backup.`,
		Example: `  kube-hyper-mini help backup
  kube-hyper-mini help clients > clients.md
  kube-hyper-mini help kubeconfig create`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeHelp,
		RunE:              showHelp,
	}
}

func showHelp(cmd *cobra.Command, args []string) error {
	topics, root := help.Topics(), cmd.Root()
	if len(args) == 0 {
		return root.Help()
	}
	if topic, found := help.Find(topics, args[0]); found && len(args) == 1 {
		return showTopic(cmd, topic)
	}
	target, rest, err := root.Find(args)
	if err != nil || len(rest) > 0 || target == root {
		text := fmt.Sprintf("no help topic or command %q", strings.Join(args, " "))
		text += config.Suggest(args[0], helpNames(root))
		return usageError(fmt.Errorf("%s; \"kube-hyper-mini help\" lists all", text))
	}
	target.InitDefaultHelpFlag()
	return target.Help()
}

// showTopic writes a topic: styled on a terminal, as Markdown elsewhere.
func showTopic(cmd *cobra.Command, topic help.Topic) error {
	text := topic.Markdown
	if slices.Contains(commandNames(cmd.Root()), topic.Name) {
		text += fmt.Sprintf("\nThe command of this name: kube-hyper-mini %s --help\n", topic.Name)
	}
	out := cmd.OutOrStdout()
	if !isTerminal(out) {
		_, err := fmt.Fprint(out, text)
		return err
	}
	_, err := fmt.Fprint(out, help.Terminal(text, useColor(out)))
	return err
}

func completeHelp(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return helpNames(cmd.Root()), cobra.ShellCompDirectiveNoFileComp
}

// helpNames are the topics and commands that help shows.
func helpNames(root *cobra.Command) []string {
	names := commandNames(root)
	for _, topic := range help.Topics() {
		names = append(names, topic.Name)
	}
	return names
}

func commandNames(parent *cobra.Command) []string {
	var names []string
	for _, child := range parent.Commands() {
		if child.IsAvailableCommand() {
			names = append(names, child.Name())
		}
	}
	return names
}

// usageTemplate is cobra's usage, with the topics below that of the root command.
func usageTemplate(root *cobra.Command) string {
	var list strings.Builder
	for _, topic := range help.Topics() {
		fmt.Fprintf(&list, "\n  %-16s %s", topic.Name, topic.Title)
	}
	return root.UsageTemplate() + "{{if not .HasParent}}\nHelp topics, shown by \"kube-hyper-mini help TOPIC\":" +
		list.String() + "\n{{end}}"
}
