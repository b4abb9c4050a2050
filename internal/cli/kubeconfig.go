package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/homedir"

	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/identity"
	"kube-hyper-mini.io/kube-hyper-mini/internal/kubeconfig"
)

func newKubeconfig() *cobra.Command {
	flags := &configFlags{}
	var merge, use, force bool
	var context, into, server, output string
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the administrator's kubeconfig, or merge it into your own",
		Long: `Print the administrator's kubeconfig, or merge it into your own. --output writes it
to a file that only you can read.

--server prints it with another address of the server, as that of a container's
mapped port. The file of the server stays as it is. If the server's certificate does
not have that host, the kubeconfig names one that the certificate has
(tls-server-name); for clients that do not support this, start the server with
--tls-san HOST.`,
		Example: `  kube-hyper-mini kubeconfig -o admin.kubeconfig
  kube-hyper-mini kubeconfig --server https://127.0.0.1:32768 > admin.kubeconfig
  kube-hyper-mini kubeconfig --merge --context mini --use`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Without --merge the administrator's key goes to standard output.
			for _, flag := range []string{"use", "into", "context"} {
				if !merge && cmd.Flags().Changed(flag) {
					return usageError(fmt.Errorf("--%s needs --merge; without it the kubeconfig is printed", flag))
				}
			}
			if merge && output != "" {
				return usageError(errors.New("--merge and --output exclude each other"))
			}
			if err := replaceable(output, force); err != nil {
				return usageError(err)
			}
			if merge && into == "" {
				var err error
				if into, err = userKubeconfig(); err != nil {
					return usageError(err)
				}
			}
			if cmd.Flags().Changed("server") {
				if _, err := config.ParseServerURL(server); err != nil {
					return usageError(fmt.Errorf("--server: %w", err))
				}
			}
			data, err := readAdminKubeconfig(cmd, flags)
			if err == nil && server != "" {
				data, err = withServer(cmd, flags, data, server)
			}
			if err != nil {
				return err
			}
			switch {
			case merge:
				return mergeKubeconfig(cmd, data, into, context, use)
			case output != "":
				return datadir.WriteFile(output, data, 0o600)
			}
			_, err = cmd.OutOrStdout().Write(data)
			return err
		},
	}
	flags.locate(cmd.Flags())
	cmd.Flags().StringVar(&server, "server", "", "URL of the server in the kubeconfig, if it differs from the one that the server has written; https://HOST:PORT")
	cmd.Flags().StringVarP(&output, "output", "o", "", "file to write, with mode 0600, instead of printing")
	cmd.Flags().BoolVar(&force, "force", false, "replace the file of --output if there is one")
	cmd.Flags().BoolVar(&merge, "merge", false, "merge into your kubeconfig instead of printing")
	cmd.Flags().StringVar(&context, "context", kubeconfig.Name, "name of the context to merge as")
	cmd.Flags().StringVar(&into, "into", "", "file to merge into (default: $KUBECONFIG or ~/.kube/config)")
	cmd.Flags().BoolVar(&use, "use", false, "make it the current context")
	cmd.AddCommand(newKubeconfigCreate(), newKubeconfigScrape())
	return cmd
}

// withServer returns the kubeconfig with the URL, and with a name that the serving
// certificate has, if it does not have the host of the URL.
func withServer(cmd *cobra.Command, flags *configFlags, data []byte, server string) ([]byte, error) {
	cfg, err := completed(cmd, flags)
	if err != nil {
		return nil, err
	}
	u, err := config.ParseServerURL(server)
	if err != nil {
		return nil, err
	}
	name, err := identity.ServedName(cfg, u.Hostname())
	if err != nil {
		return nil, err
	}
	return kubeconfig.SetServer(data, "https://"+u.Host, name)
}

func mergeKubeconfig(cmd *cobra.Command, data []byte, into, context string, use bool) error {
	merged, err := kubeconfig.Merge(data, into, context, use, time.Now())
	if err != nil {
		return err
	}
	text := fmt.Sprintf("context %q is in %s", context, into)
	switch {
	case !merged.Changed:
		text += " already; nothing was changed"
	case merged.Backup != "":
		text += "; the file as it was is " + merged.Backup
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}

// readAdminKubeconfig reads the kubeconfig of the server that the flags select.
func readAdminKubeconfig(cmd *cobra.Command, flags *configFlags) ([]byte, error) {
	cfg, err := completed(cmd, flags)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(cfg.Kubeconfig.Path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, &exitError{ExitNotReady, fmt.Errorf("no kubeconfig at %s: start the server first, or name its --data-dir or --config", cfg.Kubeconfig.Path)}
	}
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	return data, nil
}

// userKubeconfig is the file that kubectl would write to.
func userKubeconfig() (string, error) {
	if list := filepath.SplitList(os.Getenv(clientcmd.RecommendedConfigPathEnvVar)); len(list) > 0 && list[0] != "" {
		return list[0], nil
	}
	home := homedir.HomeDir()
	if home == "" {
		return "", errors.New("--merge finds no kubeconfig: HOME and KUBECONFIG are not set; name the file with --into")
	}
	return filepath.Join(home, clientcmd.RecommendedHomeDir, clientcmd.RecommendedFileName), nil
}
