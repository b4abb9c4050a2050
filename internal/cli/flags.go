package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// flagError adds to an error of pflag what helps: a flag that is spelled alike, and the command's help.
func flagError(cmd *cobra.Command, err error) error {
	// A group does not know the flags of its commands, nor of one that is misspelled.
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
		return unknownCommand(cmd, words[0])
	}
	near := ""
	var missing *pflag.NotExistError
	if errors.As(err, &missing) && missing.GetSpecifiedShortnames() == "" {
		var names []string
		cmd.Flags().VisitAll(func(flag *pflag.Flag) { names = append(names, "--"+flag.Name) })
		near = config.Suggest("--"+missing.GetSpecifiedName(), names)
	}
	return usageError(fmt.Errorf("%w%s; see %q", err, near, cmd.CommandPath()+" --help"))
}

// completeFlag makes shells complete the values of a flag.
func completeFlag(cmd *cobra.Command, name string, values []string) {
	// fails for a flag that does not exist only
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
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

var (
	errNoDirectory = errors.New("the directory is empty: name one, or leave the flag out for the default")
	errNoFile      = errors.New("the file name is empty: name a file, or leave the flag out for the default")
)

// requiredFlag sets a text in a flag. empty is the error of an empty one, as an unset shell variable
// leaves it: the command would act on the default, or for a control plane on its server.
func requiredFlag(target *string, empty error) func(string) error {
	return func(text string) error {
		if text == "" {
			return empty
		}
		*target = text
		return nil
	}
}

// pathFlag is requiredFlag for the path of a file or directory.
func pathFlag(path *string, empty error) func(string) error {
	set := requiredFlag(path, empty)
	return func(text string) error { return cmp.Or(set(text), config.CheckPath(text)) }
}

const day = 24 * time.Hour

// durationFlag is a flag with the syntax of [config.Duration].
type durationFlag time.Duration

// String implements [pflag.Value].
func (d *durationFlag) String() string {
	value := time.Duration(*d)
	if value >= day && value%day == 0 {
		return fmt.Sprintf("%dd", value/day)
	}
	return value.String()
}

// Type implements [pflag.Value].
func (d *durationFlag) Type() string { return "duration" }

// Set implements [pflag.Value].
func (d *durationFlag) Set(text string) error {
	value, err := config.ParseDuration(text)
	*d = durationFlag(value)
	return err
}

// addDuration adds a flag for a duration. Its value before is the default.
func addDuration(flags *pflag.FlagSet, target *time.Duration, name, usage string) {
	flags.Var((*durationFlag)(target), name, usage)
}
