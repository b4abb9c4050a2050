package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/internal/incluster"
	"kube-hyper-mini.io/kube-hyper-mini/internal/kubeconfig"
)

// inClusterFlags are the flags of in-cluster.
type inClusterFlags struct {
	clientFlags
	serviceAccount string
	expires        time.Duration
	server         string
}

func newInCluster() *cobra.Command {
	flags := &inClusterFlags{clientFlags: clientFlags{here: true}, expires: time.Hour}
	cmd := &cobra.Command{
		Use:   "in-cluster --service-account NAMESPACE/NAME [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command with in-cluster configuration, as a service account",
		Long: `Run COMMAND with in-cluster configuration, as in a pod of the service account: the
variables KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT, and the files token,
ca.crt and namespace in
` + kubeconfig.InClusterMount + `.
KUBECONFIG is not passed on.

Only COMMAND sees the files, in a mount namespace (Linux). That needs no root where
users may make user namespaces; COMMAND runs as the same user. It sees what is in
/run at its start, but not what is made directly in /run later. A COMMAND that runs as
root may switch to another user and still read the token. The token is renewed while
COMMAND runs; programs read it again.

Signals are passed on to COMMAND and its process group. When COMMAND has ended, the
remaining processes of its group are ended and the token is removed, also if this
process is killed.

Exit codes: that of COMMAND; 128 plus the number of the signal that ended COMMAND;
127 if COMMAND was not found, 126 if it cannot be run; 1 if the server refused or the
system does not allow it; 2 if the command line is wrong; 3 if no server was found.`,
		Example: `  kube-hyper-mini in-cluster --service-account team-a/controller -- ./controller --leader-elect
  kube-hyper-mini in-cluster --service-account team-a/robot --kubeconfig admin.kubeconfig -- python3 job.py`,
		Args: func(cmd *cobra.Command, args []string) error { return usageError(flags.check(cmd, args)) },
		RunE: func(cmd *cobra.Command, args []string) error {
			options := incluster.Options{
				Command: args, Signals: takeSignals(), Err: cmd.ErrOrStderr(),
				Issue: func(ctx context.Context) (*incluster.Account, error) { return flags.issue(ctx, cmd) },
			}
			return runError(incluster.Run(cmd.Context(), options))
		},
	}
	flags.addAdmin(cmd.Flags())
	f := cmd.Flags()
	f.StringVar(&flags.serviceAccount, "service-account", "", "namespace/name of the service account")
	addDuration(f, &flags.expires, "expires", "life of each token, as 30m or 12h; at least 10m")
	f.StringVar(&flags.server, "server", "", "URL of the server for COMMAND, if it differs from the administrator's")
	return cmd
}

// check returns an error for an invalid command line.
func (f *inClusterFlags) check(cmd *cobra.Command, args []string) error {
	if at := cmd.ArgsLenAtDash(); at != 0 || len(args) == 0 {
		return errors.New("COMMAND follows \"--\", as in: kube-hyper-mini in-cluster --service-account team/robot -- ./controller")
	}
	if err := f.clientFlags.check(); err != nil {
		return err
	}
	if f.serviceAccount == "" {
		return errors.New("--service-account NAMESPACE/NAME is missing")
	}
	if err := checkServiceAccount(f.serviceAccount); err != nil {
		return err
	}
	return checkCredentials(f.server, f.expires)
}

// issue requests a token. It reads the administrator's kubeconfig each time, because the
// certificate in it is renewed.
func (f *inClusterFlags) issue(ctx context.Context, cmd *cobra.Command) (*incluster.Account, error) {
	client, endpoint, err := f.connect(ctx, cmd, f.server)
	if err != nil {
		return nil, err
	}
	namespace, name, _ := strings.Cut(f.serviceAccount, "/")
	credentials, err := kubeconfig.IssueToken(ctx, client, namespace, name, f.expires)
	if err != nil {
		return nil, err
	}
	return &incluster.Account{Endpoint: endpoint, Namespace: namespace, Credentials: credentials}, nil
}

// newInClusterEnter is for package incluster, which starts this program with it.
func newInClusterEnter() *cobra.Command {
	return &cobra.Command{
		Use:                incluster.EnterCommand,
		Short:              "Mount the files of in-cluster configuration and become a program",
		Hidden:             true,
		DisableFlagParsing: true,
		Args:               cobra.MinimumNArgs(4),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := incluster.Enter(args[0], args[1], args[2], args[3:]); err != nil {
				return err
			}
			return &exitError{ExitFailure, errors.New("")} // incluster.Run prints what Enter has reported
		},
	}
}
