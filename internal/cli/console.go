package cli

import (
	"fmt"
	"io"

	"github.com/pkg/browser"
	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"kube-hyper-mini.io/kube-hyper-mini/internal/console"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
)

func newConsole() *cobra.Command {
	flags := &clientFlags{}
	var port int
	var noBrowser bool
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Show and edit types and objects in the browser",
		Long: `Show and edit types, objects, schemas and access of an API server in the browser.
The console listens on loopback. It uses the kubeconfig of the local server's
administrator, or with --kubeconfig that of any Kubernetes API server.

The printed address opens the console once, within 15 minutes. When it is used
again, the console prints a new address. Its random name under localhost is
another one at each run; help console says what to do where a browser does not find
it. A session ends after 12 hours, or after an hour in which no page of it was in view.`,
		Example: `  kube-hyper-mini console
  kube-hyper-mini console --kubeconfig ~/.kube/config --context staging --no-browser`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if port < 0 || port > 65535 {
				return usageError(fmt.Errorf("--port %d is not a port; use 0 to 65535, 0 for a free one", port))
			}
			if err := flags.check(); err != nil {
				return usageError(err)
			}
			if err := flags.refuseUnknown(cmd); err != nil {
				return err
			}
			options, err := consoleOptions(cmd, flags)
			if err != nil {
				return err
			}
			errOut := cmd.ErrOrStderr()
			if options.Log, err = logging.Setup(errOut, logging.Options{Color: useColor(errOut)}); err != nil {
				return err
			}
			if options.Port = port; !noBrowser {
				browser.Stdout, browser.Stderr = io.Discard, io.Discard // xdg-open prints each program that it tries
				options.Open = browser.OpenFile
			}
			c, err := console.New(options)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "console of %s: %s\nCtrl-C ends it\n", options.Config.Host,
				c.Address()); err != nil {
				return fmt.Errorf("print the address: %w", err)
			}
			return c.Run(cmd.Context())
		},
	}
	flags.addClient(cmd.Flags(), "kubeconfig to use (default: the local server's administrator)")
	flags.addContext(cmd.Flags())
	cmd.Flags().IntVar(&port, "port", 0, "port of loopback to listen on; 0 is a free one")
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "only print the address")
	return cmd
}

// consoleOptions returns what the console takes from the kubeconfig that the flags select.
func consoleOptions(cmd *cobra.Command, flags *clientFlags) (console.Options, error) {
	data, err := flags.read(cmd)
	if err != nil {
		return console.Options{}, err
	}
	config, _, err := connection(cmd, data)
	if err != nil {
		return console.Options{}, err
	}
	loaded, err := clientcmd.Load(data)
	if err != nil {
		return console.Options{}, fmt.Errorf("read the kubeconfig: %w", err)
	}
	options := console.Options{Config: config, Context: loaded.CurrentContext}
	if used := loaded.Contexts[options.Context]; used != nil {
		options.Namespace = used.Namespace
	}
	return options, nil
}
