package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance"
	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Print or validate the configuration"}
	cmd.AddCommand(newConfigPrint(), newConfigValidate())
	return cmd
}

func newConfigPrint() *cobra.Command {
	flags := &configFlags{}
	var defaults, effective bool
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print the defaults, or what a server started with the same flags would use",
		Example: `  kube-hyper-mini config print --defaults > config.yaml
  kube-hyper-mini config print --effective --config config.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Cobra's own check of exclusive flags does not end as a usage error.
			if defaults && cmd.Flags().Changed("effective") {
				return usageError(errors.New("--defaults and --effective exclude each other; give one"))
			}
			cfg := config.Default()
			if !defaults {
				var err error
				if cfg, _, err = flags.load(cmd); err != nil {
					return err
				}
				if err := cfg.Complete(); err != nil {
					return usageError(err)
				}
			}
			out, err := cfg.Marshal()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(out)
			return err
		},
	}
	flags.all(cmd.Flags())
	cmd.Flags().BoolVar(&defaults, "defaults", false, "print the built-in defaults")
	cmd.Flags().BoolVar(&effective, "effective", true, "print what the file, the flags and this user's environment give")
	return cmd
}

func newConfigValidate() *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a configuration file as the server would, without starting anything",
		Args:  exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, source, err := config.Load(args[0])
			if err != nil {
				return usageError(err)
			}
			if _, err := appliance.Check(cfg); err != nil {
				return usageError(source.Locate(err))
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), args[0]+" is valid")
			return err
		},
	}
}
