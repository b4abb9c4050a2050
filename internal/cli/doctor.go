package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance/parts"
	"kube-hyper-mini.io/kube-hyper-mini/internal/doctor"
)

func newDoctor() *cobra.Command {
	flags := &configFlags{}
	var output, file, contextName string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong with a data directory or a running server, and say what to do",
		Long: `Look for what is wrong with a data directory or a running server, and say what to
do. The command changes nothing.

Of a data directory it checks modes and owners of files, the release that has
written it, certificates and the clock, the administrator's kubeconfig, the disk,
the quota, whether OpenID Connect issuers can be reached, and, if no server runs,
whether the database is intact. Of a running server it checks readiness, backups,
the references of webhooks, conversions and APIServices, tokens, and whether objects
are stored in versions that are not served. With --kubeconfig it checks only the server
of the current context and the credentials in that file; with --context, those of that
context. "config validate" checks the configuration itself.

A failure means that something does not work or that the server cannot start; a risk,
that something works now, but not for long or not safely.

Exit codes: 0 nothing was found, 1 the checks could not be made, 2 the command line
or the configuration is invalid, 4 something was found.`,
		Example: `  kube-hyper-mini doctor
  kube-hyper-mini doctor --data-dir /var/lib/kube-hyper-mini -o json
  kube-hyper-mini doctor --kubeconfig jane.kubeconfig
  kube-hyper-mini doctor --kubeconfig ~/.kube/config --context staging`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file != "" && (flags.file != "" || flags.dataDir != "") {
				return usageError(errors.New("--kubeconfig names the server; leave out --config and --data-dir"))
			}
			if contextName != "" && file == "" {
				return usageError(errors.New("--context needs --kubeconfig, the file that has the context"))
			}
			report, err := examine(cmd, flags, file, contextName)
			if err != nil {
				return err
			}
			if err := printReport(cmd.OutOrStdout(), report, output); err != nil {
				return err
			}
			switch n := len(report.Findings); n {
			case 0:
				return nil
			case 1:
				return &exitError{ExitFindings, errors.New("one finding")}
			default:
				return &exitError{ExitFindings, fmt.Errorf("%d findings", n)}
			}
		},
	}
	flags.addServed(cmd.Flags())
	cmd.Flags().Var((*fileFlag)(&file), "kubeconfig", "check the server and the credentials of this kubeconfig, instead of a data directory")
	cmd.Flags().StringVar(&contextName, "context", "", "context of the kubeconfig (default: the current context)")
	outputFlag(cmd, &output)
	return cmd
}

// readContext reads a kubeconfig, with the paths in it as absolute ones and the named
// context, if any, as the only one. A file that is no kubeconfig is returned as it is.
func readContext(path, name string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, usageError(fmt.Errorf("read the kubeconfig: %w", err))
	}
	loaded, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return data, nil // a finding
	}
	if err := clientcmd.ResolveLocalPaths(loaded); err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	if name != "" && loaded.Contexts[name] == nil {
		return nil, usageError(fmt.Errorf("--context: %s has no context %q; it has: %s", path, name, strings.Join(slices.Sorted(maps.Keys(loaded.Contexts)), ", ")))
	}
	if name != "" {
		loaded.CurrentContext = name
		if err := clientcmdapi.MinifyConfig(loaded); err != nil {
			return nil, usageError(fmt.Errorf("read the kubeconfig %s: %w", path, err))
		}
	}
	return clientcmd.Write(*loaded)
}

// examine checks the data directory and its server or, with the path of a kubeconfig,
// that, its current context or the named one, and its server.
func examine(cmd *cobra.Command, flags *configFlags, path, contextName string) (*doctor.Report, error) {
	if path != "" {
		data, err := readContext(path, contextName)
		if err != nil {
			return nil, err
		}
		report := &doctor.Report{Findings: []doctor.Finding{}}
		if !doctor.Kubeconfig(report, path, data) {
			return report, nil
		}
		return report, examineServer(cmd, report, data, nil)
	}
	cfg, err := completed(cmd, flags)
	if err != nil {
		return nil, err
	}
	kubeconfig, unreadable := readLocalKubeconfig(cmd, flags)
	running := false
	if unreadable == nil {
		_, err := admin.QueryStatus(cmd.Context(), kubeconfig)
		running = err == nil
	}
	checked := parts.Doctor(cfg)
	report, err := doctor.Directory(cmd.Context(), checked, running)
	switch {
	case err != nil:
		return nil, err
	case running:
		return report, examineServer(cmd, report, kubeconfig, checked)
	case unreadable != nil:
		report.Skipped = append(report.Skipped, doctor.Skipped{Check: "server", Reason: unreadable.Error()})
	}
	return report, nil
}

// examineServer checks a running server.
func examineServer(cmd *cobra.Command, report *doctor.Report, kubeconfig []byte, cfg *doctor.Config) error {
	if err := admin.Reachable(cmd.Context(), kubeconfig); err != nil {
		doctor.Unreachable(cmd.Context(), report, kubeconfig, err)
		return nil
	}
	report.Running = true
	return doctor.Server(cmd.Context(), report, kubeconfig, cfg)
}

// printReport prints what was found, and which checks were made.
func printReport(w io.Writer, report *doctor.Report, output string) error {
	if output != "text" {
		return printValue(w, report, output)
	}
	text := &strings.Builder{}
	for _, f := range report.Findings {
		fmt.Fprintf(text, "%s  %s: %s\n  %s\n  remedy: %s\n", strings.ToUpper(string(f.Severity)), f.Check, f.Object, indent(f.Problem), indent(f.Remedy))
		for _, command := range f.Commands {
			fmt.Fprintf(text, "    %s\n", command)
		}
		text.WriteByte('\n')
	}
	for _, skipped := range report.Skipped {
		fmt.Fprintf(text, "not checked: %s (%s)\n", skipped.Check, skipped.Reason)
	}
	fmt.Fprintf(text, "checked: %s\n", strings.Join(report.Checked, ", "))
	if len(report.Findings) == 0 {
		text.WriteString("nothing was found\n")
	}
	_, err := io.WriteString(w, printers.EscapeTerminal(text.String()))
	return err
}

// indent puts the lines after the first under it.
func indent(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ") }
