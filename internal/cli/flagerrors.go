package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kube-hyper-mini.io/kube-hyper-mini/config"
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
	if len(formats) == 0 {
		formats = []string{"text", "json", "yaml"} // of facts
	}
	*output = formats[0]
	cmd.Flags().VarP(&choiceFlag{output, formats}, "output", "o", strings.Join(formats[:len(formats)-1], ", ")+" or "+formats[len(formats)-1])
	completeFlag(cmd, "output", formats)
}

// completeFlag makes shells complete the values of a flag.
func completeFlag(cmd *cobra.Command, name string, values []string) {
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // fails for a flag that does not exist only
}

// choiceFlag is a flag with one of several values.
type choiceFlag struct {
	value   *string
	allowed []string
}

// String implements [pflag.Value].
func (c *choiceFlag) String() string {
	if c.value == nil {
		return ""
	}
	return *c.value
}

// Type implements [pflag.Value].
func (c *choiceFlag) Type() string { return "string" }

// Set implements [pflag.Value].
func (c *choiceFlag) Set(text string) error {
	if !slices.Contains(c.allowed, text) {
		return fmt.Errorf("%q is not supported; allowed: %s", text, strings.Join(c.allowed, ", "))
	}
	*c.value = text
	return nil
}
