package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/internal/kubeconfig"
)

func newKubeconfigScrape() *cobra.Command {
	flags := &createFlags{}
	cmd := &cobra.Command{
		Use:   "scrape DIR",
		Short: "Make the credentials and the scrape job of a Prometheus that reads the metrics",
		Long: `Make the credentials and the scrape job of a Prometheus that reads the metrics.

The command makes a service account with its namespace and the right to read
/metrics, as far as they do not exist, and writes a token, the authority of the
server (ca.crt) and a configuration of Prometheus (prometheus.yaml) into DIR. Run it
again before the token expires; Prometheus reads the token again.

Exit codes: 0 succeeded, 1 the server refused or failed, 2 the command line is
invalid, 3 no server was found.`,
		Example: `  kube-hyper-mini kubeconfig scrape ./scrape
  kube-hyper-mini kubeconfig scrape /etc/prometheus/mini --server https://mini.example.com:6443`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := exactly("DIR")(cmd, args); err != nil {
				return err
			}
			return usageError(flags.check(nil))
		},
		RunE: func(cmd *cobra.Command, args []string) error { return flags.scrape(cmd, args[0]) },
	}
	flags.addAdmin(cmd.Flags())
	f := cmd.Flags()
	f.StringVar(&flags.serviceAccount, "service-account", "monitoring/prometheus", "namespace/name of the service account")
	flags.expires = 365 * day
	addDuration(f, &flags.expires, "expires", "life of the token, as 12h or 30d; at least 10m")
	f.StringVar(&flags.server, "server", "", "URL of the server to scrape, if it differs from the administrator's")
	return cmd
}

// scrape makes the identity and writes the files.
func (f *createFlags) scrape(cmd *cobra.Command, dir string) error {
	client, endpoint, err := f.connect(cmd, f.server)
	if err != nil {
		return err
	}
	namespace, name, _ := strings.Cut(f.serviceAccount, "/")
	if err := kubeconfig.AllowScraping(cmd.Context(), client, namespace, name); err != nil {
		return err
	}
	credentials, err := kubeconfig.IssueToken(cmd.Context(), client, namespace, name, f.expires)
	if err != nil {
		return err
	}
	if err := kubeconfig.WriteInCluster(dir, endpoint, namespace, credentials); err != nil {
		return err
	}
	if err := kubeconfig.WriteScrapeJob(dir, endpoint); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.ErrOrStderr(), "%s scrapes %s until %s\n", filepath.Join(dir, kubeconfig.PrometheusFile), endpoint.Server, credentials.Until.Local().Format(time.DateTime))
	return err
}
