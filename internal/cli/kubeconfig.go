package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/homedir"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/identity"
	"kube-hyper-mini.io/kube-hyper-mini/internal/kubeconfig"
)

// kubeconfigFlags are the flags of kubeconfig.
type kubeconfigFlags struct {
	configFlags
	server, output string
	plane          string
	force          bool
	merge, use     bool
	context, into  string
}

func newKubeconfig() *cobra.Command {
	flags := &kubeconfigFlags{}
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
  kube-hyper-mini kubeconfig --merge --context mini --use
  kube-hyper-mini kubeconfig --plane acme --merge --context acme`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.check(cmd); err != nil {
				return usageError(err)
			}
			return flags.write(cmd)
		},
	}
	flags.addLocation(cmd.Flags())
	addPlane(cmd.Flags(), &flags.plane)
	cmd.Flags().StringVar(&flags.server, "server", "", "URL of the server in the kubeconfig, if it differs from the one that the server has written; https://HOST:PORT")
	cmd.Flags().StringVarP(&flags.output, "output", "o", "", "file to write, with mode 0600, instead of printing")
	cmd.Flags().BoolVar(&flags.force, "force", false, "replace the file of --output if there is one")
	cmd.Flags().BoolVar(&flags.merge, "merge", false, "merge into your kubeconfig instead of printing")
	cmd.Flags().StringVar(&flags.context, "context", kubeconfig.Name, "name of the context to merge as")
	cmd.Flags().StringVar(&flags.into, "into", "", "file to merge into (default: the first of $KUBECONFIG that exists, else its last; without KUBECONFIG ~/.kube/config)")
	cmd.Flags().BoolVar(&flags.use, "use", false, "make it the current context")
	cmd.AddCommand(newKubeconfigCreate())
	return cmd
}

// check validates the flags, and finds the file to merge into.
func (f *kubeconfigFlags) check(cmd *cobra.Command) (err error) {
	// Without --merge the administrator's key goes to standard output.
	for _, flag := range []string{"use", "into", "context"} {
		if !f.merge && cmd.Flags().Changed(flag) {
			return fmt.Errorf("--%s needs --merge; without it the kubeconfig is printed", flag)
		}
	}
	if f.merge && f.output != "" {
		return errors.New("--merge and --output exclude each other")
	}
	if err := checkReplace(f.output, f.force); err != nil {
		return err
	}
	if f.merge && f.into == "" {
		if f.into, err = userKubeconfig(); err != nil {
			return err
		}
	}
	if cmd.Flags().Changed("server") {
		if _, err := config.ParseServerURL(f.server); err != nil {
			return fmt.Errorf("--server: %w", err)
		}
	}
	return nil
}

// write prints, writes or merges the kubeconfig.
func (f *kubeconfigFlags) write(cmd *cobra.Command) error {
	data, err := readAdminKubeconfig(cmd, &f.configFlags)
	if err == nil && f.server != "" {
		data, err = withServer(cmd, &f.configFlags, data, f.server)
	}
	if err == nil {
		data, err = atPlane(data, f.plane)
	}
	if err != nil {
		return err
	}
	switch {
	case f.merge:
		return mergeKubeconfig(cmd, data, f.into, f.context, f.use)
	case f.output != "":
		return datadir.WriteFile(f.output, data, 0o600)
	}
	_, err = cmd.OutOrStdout().Write(data)
	return err
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
	name, err := identity.ServedName(&cfg.Serving, cfg.DataDir, u.Hostname())
	if err != nil {
		return nil, err
	}
	return kubeconfig.SetServer(data, "https://"+u.Host, name)
}

func mergeKubeconfig(cmd *cobra.Command, data []byte, into, context string, use bool) error {
	merged, err := kubeconfig.Merge(cmd.Context(), data, into, context, use, time.Now())
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

// userKubeconfig is the file that kubectl would write to: the first of KUBECONFIG that
// exists, else its last, as `kubectl config --help` says. Empty names do not count.
func userKubeconfig() (string, error) {
	files := slices.DeleteFunc(filepath.SplitList(os.Getenv(clientcmd.RecommendedConfigPathEnvVar)), func(file string) bool { return file == "" })
	for _, file := range files {
		if _, err := os.Stat(file); err == nil {
			return file, nil
		}
	}
	if len(files) > 0 {
		return files[len(files)-1], nil
	}
	home := homedir.HomeDir()
	if home == "" {
		return "", errors.New("--merge finds no kubeconfig: HOME and KUBECONFIG are not set; name the file with --into")
	}
	return filepath.Join(home, clientcmd.RecommendedHomeDir, clientcmd.RecommendedFileName), nil
}
