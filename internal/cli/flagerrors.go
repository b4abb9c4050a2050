package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
)

// flagError rewords an error of pflag for users: with a suggestion for an unknown flag,
// and with the valid values.
func flagError(cmd *cobra.Command, err error) error {
	// A group does not know the flags of its commands, nor of one that is misspelled.
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
		return unknownCommand(cmd, words[0])
	}
	var missing *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var valueless *pflag.ValueRequiredError
	switch {
	case errors.As(err, &missing) && missing.GetSpecifiedShortnames() == "":
		return usageError(fmt.Errorf("unknown flag: --%s%s; see \"%s --help\"", missing.GetSpecifiedName(), suggestFlag(cmd, missing.GetSpecifiedName()), cmd.CommandPath()))
	case errors.As(err, &missing):
		return usageError(fmt.Errorf("unknown flag: -%s; see \"%s --help\"", missing.GetSpecifiedName(), cmd.CommandPath()))
	case errors.As(err, &valueless):
		dashes := "--"
		if valueless.GetSpecifiedShortnames() != "" {
			dashes = "-"
		}
		return usageError(fmt.Errorf("%s%s needs a value; see \"%s --help\"", dashes, valueless.GetSpecifiedName(), cmd.CommandPath()))
	case errors.As(err, &invalid):
		flag := invalid.GetFlag()
		if want := valueInWords(flag.Value.Type()); want != "" {
			return usageError(fmt.Errorf("--%s %q is not %s", flag.Name, invalid.GetValue(), want))
		}
		return usageError(fmt.Errorf("--%s: %w", flag.Name, invalid.Unwrap()))
	}
	return usageError(err)
}

// suggestFlag names a flag of the command that is spelled alike.
func suggestFlag(cmd *cobra.Command, name string) string {
	var names []string
	cmd.Flags().VisitAll(func(flag *pflag.Flag) { names = append(names, "--"+flag.Name) })
	return config.Suggest("--"+name, names)
}

// valueInWords describes the values of a flag type of pflag. Flag types of this package
// describe theirs in the error.
func valueInWords(kind string) string {
	switch kind {
	case "int":
		return "a whole number"
	case "bool":
		return "true or false"
	}
	return ""
}

// outputFlag adds --output with the formats of a command; the first is the default.
func outputFlag(cmd *cobra.Command, output *string, formats ...string) {
	cmd.Flags().StringVarP(output, "output", "o", formats[0], strings.Join(formats[:len(formats)-1], ", ")+" or "+formats[len(formats)-1])
	complete := cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc("output", complete) // fails for a flag that does not exist only
}
