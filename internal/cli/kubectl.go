package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/kubeconfig"
	"kube-hyper-mini.io/kube-hyper-mini/internal/kubectl"
	"kube-hyper-mini.io/kube-hyper-mini/internal/planes"
	"kube-hyper-mini.io/kube-hyper-mini/internal/testplane"
)

// kubectlName is the name of kubectl's command.
const kubectlName = "kubectl"

func newKubectl() *cobra.Command {
	return &cobra.Command{
		Use:   kubectlName + " [--data-dir DIR | --config FILE] [--plane NAME] [ARGUMENT...]",
		Short: "Run kubectl as the administrator of the local server",
		Long: `Run kubectl, which is in this program. --kubeconfig names the server, as for all
commands; without that, --data-dir or --config, which come before kubectl's own
arguments; without those, KUBE_HYPER_MINI_DATA_DIR; otherwise it is the server of this
machine. If there is none, kubectl uses KUBECONFIG, or ~/.kube/config for "kubectl
config".
--plane, also before kubectl's own arguments, names a ControlPlane of the local server.

When root runs it, it runs as the owner of the data directory: pass files that this user
may not read on standard input (-f - < FILE).

Errors, exit codes and plugins (kubectl-NAME in PATH) are those of kubectl.`,
		Example: `  kube-hyper-mini kubectl get namespaces
  kube-hyper-mini kubectl --data-dir ./data apply -f config/examples/widgets.yaml
  alias kubectl='kube-hyper-mini kubectl'`,
		DisableFlagParsing: true,
		Args:               cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			args, cfg, err := kubectlKubeconfig(cmd, args)
			if err != nil {
				return err
			}
			// kubectl ends as programs do by default, or handles signals itself.
			signal.Reset(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			streams := kubectl.Streams{In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()}
			if code := kubectl.Run(args, streams, kubectlConnection(args, cfg)); code != 0 {
				return &exitError{code, errors.New("")} // kubectl has printed the error
			}
			return nil
		},
		ValidArgsFunction: completeKubectl,
	}
}

// kubectlConnection is the server that kubectl connects to: that of cfg if it is not nil.
func kubectlConnection(args []string, cfg *config.ServerConfiguration) kubectl.Connection {
	if cfg == nil {
		return kubectl.Connection{Missing: noServer(args)}
	}
	if err := checkKubeconfig(cfg.Kubeconfig.Path); err != nil {
		return kubectl.Connection{Missing: err}
	}
	address, _ := kubeconfig.Server(cfg.Kubeconfig.Path) // kubectl reports a kubeconfig that it cannot read
	address.Local = cmp.Or(address.Local, address.Server)
	plane := ""
	if len(args) > 1 && args[0] == "--server" { // of kubectlKubeconfig
		_, plane, _ = strings.Cut(args[1], "/clusters/")
	}
	return kubectl.Connection{Address: address, Generic: cfg.APIs.Profile == config.ProfileGeneric,
		Start: startCommand(cfg), Plane: plane}
}

// kubectlKubeconfig removes the flags of this program from the arguments, and sets
// KUBECONFIG to the local server's kubeconfig, if there is one, unless the arguments name
// another. cfg is that server's configuration, or nil. It is also nil for `kubectl config`
// where the local server has no kubeconfig: that command would write one into the data
// directory.
func kubectlKubeconfig(cmd *cobra.Command, args []string) (rest []string, cfg *config.ServerConfiguration, err error) {
	flags, named, plane := &configFlags{quiet: true}, false, ""
	for len(args) > 0 {
		name, value, hasValue := strings.Cut(args[0], "=")
		target := map[string]*string{"--data-dir": &flags.dataDir, "--config": &flags.file, "--plane": &plane}[name]
		if target == nil {
			break
		}
		if args = args[1:]; !hasValue {
			if len(args) == 0 {
				return nil, nil, usageError(fmt.Errorf("%s needs a value; see \"kube-hyper-mini kubectl --help\"", name))
			}
			value, args = args[0], args[1:]
		}
		if value == "" {
			return nil, nil, usageError(fmt.Errorf("%s: %w", name, map[string]error{"--data-dir": errNoDirectory,
				"--config": errNoFile, "--plane": errNoPlane}[name]))
		}
		*target, named = value, true
	}
	if err := checkPlane(plane); err != nil {
		return nil, nil, err
	}
	switch other := kubectl.Kubeconfig(args); {
	case other != "" && plane != "":
		return nil, nil, usageError(fmt.Errorf("--plane is of the local server, and --kubeconfig names another: "+
			"leave one out; \"kube-hyper-mini kubeconfig create NAME --kubeconfig %s --plane %s\" makes a kubeconfig "+
			"for the control plane", other, plane))
	case other != "":
		return args, nil, nil
	}
	if cfg, err = completed(cmd, flags); err != nil {
		return nil, nil, err
	}
	missing := checkKubeconfig(cfg.Kubeconfig.Path)
	named = named || os.Getenv(testplane.DataDirVariable) != ""
	switch {
	case missing == nil:
	case named && kubectl.Command(args) == "config":
		return nil, nil, missing
	case !named && (kubectl.Command(args) == "config" || os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != ""):
		return args, nil, nil
	}
	if missing == nil { // otherwise kubectl reports it
		if _, err := readAdminKubeconfig(cmd, flags); err != nil {
			return nil, nil, err
		}
		if plane != "" {
			address, err := kubeconfig.Server(cfg.Kubeconfig.Path)
			if err != nil {
				return nil, nil, err
			}
			args = planeArgs(address, plane, args)
		}
	}
	// Plugins of kubectl get the variable too.
	return args, cfg, os.Setenv(clientcmd.RecommendedConfigPathEnvVar, cfg.Kubeconfig.Path)
}

// planeArgs adds to the arguments of kubectl those that choose a control plane of the server.
func planeArgs(server kubeconfig.Address, plane string, args []string) []string {
	chosen := []string{"--server", planes.URL(cmp.Or(server.Local, server.Server), plane),
		"--tls-server-name", server.TLSServerName}
	if kubectl.Command(args) == "proxy" {
		chosen = append(chosen, "--append-server-path=true") // else it serves the server itself
	}
	return append(chosen, args...)
}

// noServer returns why there is no server, with the remedy, or nil: the kubeconfigs that the
// arguments or KUBECONFIG name have no cluster. kubectl reports those that it cannot read.
func noServer(args []string) error {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath, rules.WarnIfAllMissing = kubectl.Kubeconfig(args), false
	loaded, err := rules.Load()
	if err != nil || len(loaded.Clusters) > 0 {
		return nil
	}
	if _, err := rest.InClusterConfig(); err == nil {
		return nil // kubectl uses it
	}
	named := "--kubeconfig " + rules.ExplicitPath
	if rules.ExplicitPath == "" {
		named = clientcmd.RecommendedConfigPathEnvVar + "=" + os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	}
	return fmt.Errorf("no server in %s: name a kubeconfig that has one, or a server's --data-dir or --config before "+
		"kubectl's arguments", named)
}

// checkKubeconfig returns an error with the remedy if there is no file at path.
func checkKubeconfig(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("no kubeconfig at %s: start the server first, or name its --data-dir or --config before "+
		"kubectl's arguments, or another server with --kubeconfig", path)
}

// completeKubectl calls kubectl's completion, whose output ends with ":" and a
// directive.
func completeKubectl(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	args, cfg, err := kubectlKubeconfig(cmd, args)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out, discarded strings.Builder
	kubectl.Run(slices.Concat([]string{cobra.ShellCompRequestCmd}, args, []string{toComplete}),
		kubectl.Streams{In: cmd.InOrStdin(), Out: &out, Err: &discarded}, kubectlConnection(args, cfg))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	last := len(lines) - 1
	directive, err := strconv.Atoi(strings.TrimPrefix(lines[last], ":"))
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return lines[:last], cobra.ShellCompDirective(directive)
}
