package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance"
	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/envtest"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
)

// RunAs is Run for a process that was started as program: kube-apiserver, etcd and
// kubectl of envtest are this program under other names.
func RunAs(ctx context.Context, program string, args []string, streams Streams) int {
	switch envtest.Program(program) {
	case envtest.KubeAPIServer:
		cmd := newEnvtestAPIServer()
		setStreams(cmd, streams)
		return execute(ctx, cmd, args, streams)
	case envtest.Etcd:
		cmd := newEnvtestEtcd()
		setStreams(cmd, streams)
		return execute(ctx, cmd, args, streams)
	case envtest.Kubectl:
		args = append([]string{envtest.Kubectl}, args...)
	}
	return Run(ctx, args, streams)
}

func newEnvtest() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "envtest DIR",
		Short: "Make kube-apiserver, etcd and kubectl for envtest",
		Long: `Make kube-apiserver, etcd and kubectl in DIR, an empty or a new directory, for
sigs.k8s.io/controller-runtime/pkg/envtest: name DIR in KUBEBUILDER_ASSETS. They
are links to this program, or copies of it. After an upgrade, make DIR again.

kube-apiserver serves all types of Kubernetes as data. Unlike envtest's own, it
deletes the content of deleted namespaces and collects garbage. As there, namespaces
get no default service account and no config map kube-root-ca.crt.
KUBE_HYPER_MINI_CONTROLLERS=none switches that off for tests that rely on its
absence; a list of names as in controllerManager.controllers selects controllers.

The store is in kube-apiserver, in the data directory of etcd: etcd answers for its
health only. Tests that connect to etcd need another etcd in TEST_ASSET_ETCD, which
this kube-apiserver can be used with.`,
		Example: `  eval "$(kube-hyper-mini envtest ./bin/envtest)"
  go test ./...`,
		Args: exactly("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			executable, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			dir, err := envtest.Install(args[0], executable)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "export KUBEBUILDER_ASSETS='%s'\n", dir)
			return err
		},
	}
	return cmd
}

// newEnvtestAPIServer is kube-apiserver of envtest; it is run by that name.
func newEnvtestAPIServer() *cobra.Command {
	return &cobra.Command{Use: envtest.KubeAPIServer, DisableFlagParsing: true, SilenceUsage: true, SilenceErrors: true, RunE: func(cmd *cobra.Command, args []string) error {
		server, err := envtest.NewAPIServer(args)
		if err != nil {
			return usageError(err)
		}
		if server.Help != "" {
			_, err := fmt.Fprint(cmd.OutOrStdout(), server.Help)
			return err
		}
		cfg, release, err := server.Configuration(cmd.Context())
		if err != nil {
			return err
		}
		return errors.Join(runEnvtestAPIServer(cmd, cfg), release())
	}}
}

func runEnvtestAPIServer(cmd *cobra.Command, cfg *config.ServerConfiguration) error {
	log, err := logging.Setup(cmd.ErrOrStderr(), logging.Options{Format: cfg.Logging.Format, Verbosity: cfg.Logging.Verbosity, Color: isTerminal(cmd.ErrOrStderr())})
	if err != nil {
		return err
	}
	checked, err := appliance.Check(cfg)
	if err != nil {
		return usageError(err)
	}
	return appliance.Run(cmd.Context(), checked, log)
}

// newEnvtestEtcd is etcd of envtest; it is run by that name.
func newEnvtestEtcd() *cobra.Command {
	return &cobra.Command{Use: envtest.Etcd, DisableFlagParsing: true, SilenceUsage: true, SilenceErrors: true, RunE: func(cmd *cobra.Command, args []string) error {
		etcd, err := envtest.NewEtcd(args)
		if err != nil {
			return usageError(err)
		}
		if etcd.Help != "" {
			_, err := fmt.Fprint(cmd.OutOrStdout(), etcd.Help)
			return err
		}
		return etcd.Run(cmd.Context())
	}}
}
