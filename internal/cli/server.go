package cli

import (
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance"
	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
)

// configFlags select the configuration. Flags override the file, the file overrides the
// defaults.
type configFlags struct {
	file      string
	dataDir   string
	port      int
	verbosity int
}

// locate adds the flags that select the server of a command.
func (f *configFlags) locate(flags *pflag.FlagSet) {
	flags.StringVar(&f.file, "config", "", "configuration file (see config print)")
	flags.StringVar(&f.dataDir, "data-dir", "", "directory for everything that outlives the process (default: /var/lib/kube-hyper-mini for root, $XDG_DATA_HOME/kube-hyper-mini or ~/.local/share/kube-hyper-mini for others)")
}

// all adds the flags that override the file.
func (f *configFlags) all(flags *pflag.FlagSet) {
	f.withoutPort(flags)
	flags.IntVar(&f.port, "port", 6443, "port to serve on; 0 takes a free one")
}

// withoutPort is all for parts that do not serve the API.
func (f *configFlags) withoutPort(flags *pflag.FlagSet) {
	f.locate(flags)
	flags.IntVarP(&f.verbosity, "verbosity", "v", 0, "log verbosity, 0 to 10")
}

// run adds the flags of a server in a temporary directory.
func (f *configFlags) run(flags *pflag.FlagSet) {
	flags.StringVar(&f.file, "config", "", "configuration file (see config print)")
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
	if flags.Changed("data-dir") {
		cfg.DataDir = f.dataDir
	}
	if flags.Changed("port") {
		cfg.Serving.Port = f.port
	}
	if flags.Changed("verbosity") {
		cfg.Logging.Verbosity = f.verbosity
	}
	return cfg, source, nil
}

// completed returns the configuration with all paths.
func completed(cmd *cobra.Command, flags *configFlags) (*config.ServerConfiguration, error) {
	cfg, _, err := flags.load(cmd)
	if err != nil {
		return nil, err
	}
	if err := cfg.Complete(); err != nil {
		return nil, usageError(err)
	}
	return cfg, nil
}

// commandLog returns the log of a command that is not a server.
func commandLog(cmd *cobra.Command, cfg *config.ServerConfiguration) (*slog.Logger, error) {
	return logging.Setup(cmd.ErrOrStderr(), logging.Options{Format: cfg.Logging.Format, Verbosity: cfg.Logging.Verbosity})
}

func newServer() *cobra.Command {
	return runsPart(&cobra.Command{
		Use:   "server",
		Short: "Run the control plane",
		Long: `Run the control plane in the foreground: etcd, API server, controllers. It stops
in order at the first SIGINT or SIGTERM, and at once at the second.

Exit codes: 0 stopped by a signal, 1 failed, 2 the configuration or the command
line is invalid (a restart does not help), 130 stopped by a second signal.`,
		Example: `  kube-hyper-mini server
  kube-hyper-mini server --data-dir ./data --port 0
  kube-hyper-mini server --config /etc/kube-hyper-mini/config.yaml`,
	}, true, appliance.Run)
}

// isTerminal reports whether w is a terminal to which colours may be written.
func isTerminal(w io.Writer) bool {
	return isConsole(w) && os.Getenv("NO_COLOR") == ""
}

// isConsole reports whether w is a terminal.
func isConsole(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
