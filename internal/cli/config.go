package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Print or validate the configuration"}
	cmd.AddCommand(newConfigPrint(), newConfigValidate())
	return cmd
}

func newConfigPrint() *cobra.Command {
	flags := &configFlags{}
	var defaults, effective bool
	var output format
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print the defaults, or the configuration that a server with the same flags uses",
		Example: `  kube-hyper-mini config print --defaults > config.yaml
  kube-hyper-mini config print --effective --config config.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if defaults {
				return printDefaults(cmd, effective, output)
			}
			if !effective {
				return usageError(errors.New("--effective=false leaves nothing to print; --defaults prints the defaults"))
			}
			cfg, source, err := flags.load(cmd)
			if err != nil {
				return err
			}
			if err := errors.Join(cfg.Complete(), cfg.Validate()); err != nil {
				return usageError(source.Locate(err))
			}
			return output.write(cmd.OutOrStdout(), cfg, nil)
		},
	}
	flags.addServer(cmd.Flags())
	cmd.Flags().BoolVar(&defaults, "defaults", false, "print the built-in defaults, with what each field means")
	cmd.Flags().BoolVar(&effective, "effective", true,
		"print the configuration from the file, the flags and the environment")
	output.add(cmd, "yaml", "json")
	return cmd
}

// printDefaults prints the documented file or, as JSON, the values in it.
func printDefaults(cmd *cobra.Command, effective bool, output format) error {
	// Cobra's own check of exclusive flags does not end as a usage error.
	for _, flag := range []string{"effective", "config", "data-dir", "port", "profile", "tls-san", "verbosity"} {
		if cmd.Flags().Changed(flag) && (flag != "effective" || effective) {
			return usageError(fmt.Errorf("--defaults and --%s exclude each other: the defaults do not depend on it", flag))
		}
	}
	if output == "json" {
		return output.write(cmd.OutOrStdout(), config.Default(), nil)
	}
	_, err := fmt.Fprint(cmd.OutOrStdout(), config.Documented)
	return err
}

func newConfigValidate() *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check configuration files as the server would, without starting anything",
		Long: `Check configuration files as the server would, without starting anything; "-" is
standard input. All files are checked. Wrong values are found when each field has the
right form, and mistakes in flags, feature gates, controllers and files of
kube-apiserver when the rest of the file is valid.

Exit codes: 0 all are valid, 2 one is not.`,
		Example: `  kube-hyper-mini config validate /etc/kube-hyper-mini/config.yaml
  kube-hyper-mini config print --defaults | kube-hyper-mini config validate -`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exactly("FILE")(cmd, args)
			}
			if first := slices.Index(args, "-"); first >= 0 && slices.Contains(args[first+1:], "-") {
				return usageError(errors.New(`"-" is given twice: standard input can be read once only`))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var invalid []error
			for _, file := range args {
				note, err := validateFile(cmd, file)
				if err != nil {
					invalid = append(invalid, err)
					continue
				}
				text := inputName(file) + " is valid"
				if note != "" {
					text += "; " + note
				}
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), text); err != nil {
					return errors.Join(usageError(errors.Join(invalid...)), err)
				}
			}
			return usageError(errors.Join(invalid...))
		},
	}
}

// inputName names a file for users; "-" is standard input.
func inputName(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// validateFile checks one file, or standard input for "-". The note is what a server says about
// it at its start.
func validateFile(cmd *cobra.Command, file string) (note string, err error) {
	var cfg *config.ServerConfiguration
	var source config.Source
	if file == "-" {
		var data []byte
		if data, err = io.ReadAll(cmd.InOrStdin()); err != nil {
			return "", fmt.Errorf("read the configuration: %w", err)
		}
		cfg, source, err = config.Parse(inputName(file), data)
	} else {
		cfg, source, err = config.Load(file)
	}
	if err != nil {
		return "", err
	}
	_, err = appliance.Check(cfg)
	return cfg.Note(), source.Locate(err)
}
