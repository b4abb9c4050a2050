package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/testplane"
)

// configFlags select the configuration. Flags override the file, the file overrides the
// defaults.
type configFlags struct {
	file      string
	dataDir   string
	port      int
	tlsSANs   []string
	profile   string
	verbosity int
	plane     string // of the server; empty for its own API
	quiet     bool   // do not print which configuration is used

	complete *config.ServerConfiguration // see completed
}

// addLocation adds the flags that select the data directory. Without them the environment
// variable that `run` sets for its command names it.
func (f *configFlags) addLocation(flags *pflag.FlagSet) {
	flags.Func("config", "configuration `file` (see config print)", pathFlag(&f.file, errNoFile))
	flags.Func("data-dir", "data `directory` (default: $"+testplane.DataDirVariable+", else see \"help config\")",
		pathFlag(&f.dataDir, errNoDirectory))
}

// addPlane is addLocation for what may also be done with a control plane of the server.
func (f *configFlags) addPlane(flags *pflag.FlagSet) {
	f.addLocation(flags)
	flags.Func("plane", "`name` of a ControlPlane of the server (see help planes)", requiredFlag(&f.plane, errNoPlane))
}

// addProfile adds the flag for the types that are served.
func (f *configFlags) addProfile(flags *pflag.FlagSet) {
	f.profile = config.ProfileGeneric
	flags.Var(&choiceFlag{&f.profile, []string{config.ProfileGeneric, config.ProfileKubernetes}}, "profile",
		"types to serve: generic, or kubernetes with pods, deployments and all others, as data")
}

// addServer adds the flags that override the file.
func (f *configFlags) addServer(flags *pflag.FlagSet) {
	f.addPart(flags)
	f.addProfile(flags)
	flags.IntVar(&f.port, "port", 6443, "port to serve on; 0 takes a free one, another at each start")
	flags.StringArrayVar(&f.tlsSANs, "tls-san", nil,
		"further DNS name or IP address for the serving certificate (repeatable)")
}

// addPart is addServer for parts that do not serve the API.
func (f *configFlags) addPart(flags *pflag.FlagSet) {
	f.addLocation(flags)
	flags.IntVarP(&f.verbosity, "verbosity", "v", 0, "log verbosity, 0 to 10")
}

// addRun adds the flags of a server in a temporary directory.
func (f *configFlags) addRun(flags *pflag.FlagSet) {
	f.addProfile(flags)
	flags.Func("config", "configuration `file` (see config print)", pathFlag(&f.file, errNoFile))
	flags.IntVar(&f.port, "port", 0, "port to serve on; 0 takes a free one")
	flags.IntVarP(&f.verbosity, "verbosity", "v", 0, "log verbosity, 0 to 10")
}

// load reads the file, if one was given, and applies the flags that were set.
func (f *configFlags) load(cmd *cobra.Command) (*config.ServerConfiguration, config.Source, error) {
	cfg, source := config.Default(), config.Source{}
	if f.file != "" {
		var err error
		if cfg, source, err = config.Load(f.file); err != nil {
			return nil, source, usageError(err)
		}
	}
	flags := cmd.Flags()
	if f.dataDir != "" {
		cfg.Relocate(f.dataDir)
	} else if f.file == "" {
		cfg.DataDir = os.Getenv(testplane.DataDirVariable)
	}
	if flags.Changed("port") {
		cfg.Serving.Port = f.port
		source.Override("serving.port", "port")
	}
	if flags.Changed("profile") {
		cfg.APIs.Profile = f.profile
		source.Override("apis.profile", "profile")
	}
	for _, name := range f.tlsSANs {
		if err := config.CheckSAN(name); err != nil {
			return nil, source, usageError(fmt.Errorf("--tls-san: %w", err))
		}
	}
	cfg.Serving.ExtraSANs = append(cfg.Serving.ExtraSANs, f.tlsSANs...)
	if flags.Changed("verbosity") {
		cfg.Logging.Verbosity = f.verbosity
		source.Override("logging.verbosity", "verbosity")
	}
	if external := os.Getenv(config.ExternalURLVariable); external != "" {
		if _, err := config.ParseServerURL(external); err != nil {
			return nil, source, usageError(fmt.Errorf("environment variable %s: %w", config.ExternalURLVariable, err))
		}
		cfg.Serving.SetExternalURL(external)
	}
	return cfg, source, nil
}

// completed returns the configuration of a command that is not a server, with all paths:
// that of --config, or the one that the server of the data directory has recorded. It gives
// up root for the owner of the data directory. A data directory that is a file is an error.
func completed(cmd *cobra.Command, flags *configFlags) (*config.ServerConfiguration, error) {
	if flags.complete != nil { // the owner may not read the file that root has read
		return flags.complete, nil
	}
	cfg, source, err := flags.load(cmd)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(cfg.Complete(), cfg.Validate()); err != nil {
		return nil, usageError(source.Locate(err))
	}
	if info, err := os.Stat(cfg.DataDir); err == nil && !info.IsDir() {
		return nil, usageError(fmt.Errorf("the data directory %s is a file: name the directory with --data-dir", cfg.DataDir))
	}
	if err := datadir.BecomeOwner(cfg.DataDir); err != nil {
		return nil, err
	}
	if flags.file == "" {
		if cfg, err = recorded(cmd, flags, cfg); err != nil {
			return nil, err
		}
	}
	flags.complete = cfg
	return cfg, nil
}

// recorded returns the configuration that the server of the data directory has recorded, or cfg
// if there is none.
func recorded(cmd *cobra.Command, flags *configFlags,
	cfg *config.ServerConfiguration) (*config.ServerConfiguration, error) {
	recorded, file, err := config.Used(cfg.DataDir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) { // then the command does not need it either
		return cfg, nil
	}
	if err != nil {
		return nil, usageError(err)
	}
	if file != "" && !flags.quiet {
		_, err = fmt.Fprintf(cmd.ErrOrStderr(), "configuration: that of the server in %s, from %s\n", cfg.DataDir, file)
	}
	return recorded, err
}

// with returns the function of a command that works with the completed configuration.
func (f *configFlags) with(
	run func(cmd *cobra.Command, args []string, cfg *config.ServerConfiguration) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		cfg, err := completed(cmd, f)
		if err != nil {
			return err
		}
		return run(cmd, args, cfg)
	}
}

// commandLog returns the log of a command that is not a server.
func commandLog(cmd *cobra.Command, cfg *config.ServerConfiguration) (*slog.Logger, error) {
	return logging.Setup(cmd.ErrOrStderr(), logging.Options{Format: cfg.Logging.Format, Verbosity: cfg.Logging.Verbosity})
}

func newServer() *cobra.Command {
	options := &controlplane.Options{}
	cmd := partCommand(&cobra.Command{
		Use:   "server",
		Short: "Run the control plane",
		Long: `Run the control plane in the foreground: etcd, API server, controllers. It stops
in order at the first SIGINT or SIGTERM, and at once at the second.

The data directory is that of --data-dir or --config, else $KUBE_HYPER_MINI_DATA_DIR,
else /var/lib/kube-hyper-mini for root, and for other users
$XDG_DATA_HOME/kube-hyper-mini, or ~/.local/share/kube-hyper-mini without that variable.

--ephemeral is for tests. The data directory is a temporary one; one that --data-dir or
the configuration names must be new or empty. Its content is removed at the end. Writes
are not synced to the disk, and no backups are made. The kubeconfig is admin.kubeconfig
in the data directory. External etcd, journal, backups, audit log and kubeconfig of the
configuration are not used.

The environment variable KUBE_HYPER_MINI_EXTERNAL_URL has the address that clients use,
as https://host:port, if it is not the one that the server listens on: a mapped port of
a container, for example. It goes into the kubeconfig, and its host into the serving
certificate.

Exit codes: 0 stopped by a signal, 1 failed, 2 the configuration or the command
line is invalid (a restart does not help), 130 stopped by a second signal.`,
		Example: `  kube-hyper-mini server
  kube-hyper-mini server --data-dir ./data --port 0
  kube-hyper-mini server --profile kubernetes
  kube-hyper-mini server --ephemeral --tls-san mini.example.org
  kube-hyper-mini server --config /etc/kube-hyper-mini/config.yaml`,
	}, &configFlags{}, options)
	cmd.Flags().BoolVar(&options.Ephemeral, "ephemeral", false,
		"keep no data: the directory is a temporary one or must be empty, and its content is removed at the end")
	return cmd
}

// useColor reports whether w is a terminal, and the user has not switched colours off
// (https://no-color.org).
func useColor(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == ""
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
