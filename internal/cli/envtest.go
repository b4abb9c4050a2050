package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
	"kube-hyper-mini.io/kube-hyper-mini/internal/envtest"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/testplane"
)

// RunAs is Run for a process that was started as program: kube-apiserver, etcd and
// kubectl of envtest are this program under other names.
func RunAs(ctx context.Context, program string, args []string, streams Streams) int {
	if self, err := os.Executable(); err == nil { // otherwise databases are not checked after a crash
		etcd.CheckWith(self)
	}
	switch envtest.Program(program) {
	case envtest.KubeAPIServer:
		return execute(ctx, newEnvtestAPIServer(), args, streams)
	case envtest.Etcd:
		return execute(ctx, newEnvtestEtcd(), args, streams)
	case envtest.Kubectl:
		args = append([]string{envtest.Kubectl}, args...)
	}
	return Run(ctx, args, streams)
}

func newEnvtest() *cobra.Command {
	return &cobra.Command{
		Use:   "envtest DIR",
		Short: "Make kube-apiserver, etcd and kubectl for envtest",
		Long: `Make the programs kube-apiserver, etcd and kubectl in DIR, a new or empty directory,
for sigs.k8s.io/controller-runtime/pkg/envtest, and print a shell line that sets
KUBEBUILDER_ASSETS to DIR. They are links to this program, or copies of it. After an
upgrade, run the command again: it replaces those of another release in DIR.

This kube-apiserver stores all types of Kubernetes. Unlike envtest's own, it deletes
the content of deleted namespaces and collects garbage. Like envtest's own, it makes
no default service account and no config map kube-root-ca.crt in namespaces. The
environment variable KUBE_HYPER_MINI_CONTROLLERS selects the controllers, as a list
with the syntax of controllerManager.controllers; none runs no controllers.

The kube-apiserver process contains the database, in the data directory of etcd; the
etcd process only answers health checks. For tests that connect to etcd, name a real
etcd in TEST_ASSET_ETCD: this kube-apiserver works with it too.

Both processes end, and remove the temporary directories that envtest has made, when
the test program has ended without stopping them: when it was killed, and on Windows,
where envtest cannot stop processes.`,
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
			_, err = fmt.Fprintln(cmd.OutOrStdout(), testplane.ExportLine("KUBEBUILDER_ASSETS", dir))
			return err
		},
	}
}

// newEnvtestAPIServer is kube-apiserver of envtest; it is run by that name.
func newEnvtestAPIServer() *cobra.Command {
	run := func(cmd *cobra.Command, args []string) error {
		server, err := envtest.NewAPIServer(args)
		if err != nil {
			return usageError(err)
		}
		if server.Help != "" {
			_, err := fmt.Fprint(cmd.OutOrStdout(), server.Help)
			return err
		}
		cfg, err := server.Configuration(cmd.Context())
		if err != nil {
			return err
		}
		owner, err := server.Owner()
		if err != nil {
			return err
		}
		return owner.Run(cmd.Context(), func(ctx context.Context) error { return runEnvtestAPIServer(ctx, cmd, cfg) })
	}
	return &cobra.Command{Use: envtest.KubeAPIServer, Annotations: runsServer(), DisableFlagParsing: true,
		SilenceUsage: true, SilenceErrors: true, RunE: run}
}

func runEnvtestAPIServer(ctx context.Context, cmd *cobra.Command, cfg *config.ServerConfiguration) error {
	log, err := logging.Setup(cmd.ErrOrStderr(), logging.Options{Format: cfg.Logging.Format,
		Verbosity: cfg.Logging.Verbosity, Color: useColor(cmd.ErrOrStderr())})
	if err != nil {
		return err
	}
	// NewIdentity as in kube-apiserver, which has its keys in flags.
	server, err := controlplane.New(controlplane.Options{Config: cfg, Listen: true, NewIdentity: true,
		OwnsProcess: true, Log: log})
	if err != nil {
		return usageError(err)
	}
	return server.Run(ctx, nil)
}

// newEnvtestEtcd is etcd of envtest; it is run by that name.
func newEnvtestEtcd() *cobra.Command {
	run := func(cmd *cobra.Command, args []string) error {
		etcd, err := envtest.NewEtcd(args)
		if err != nil {
			return usageError(err)
		}
		if etcd.Help != "" {
			_, err := fmt.Fprint(cmd.OutOrStdout(), etcd.Help)
			return err
		}
		return etcd.Run(cmd.Context())
	}
	return &cobra.Command{Use: envtest.Etcd, DisableFlagParsing: true, SilenceUsage: true, SilenceErrors: true, RunE: run}
}
