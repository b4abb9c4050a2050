package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance/parts"
	"kube-hyper-mini.io/kube-hyper-mini/internal/doctor"
)

func newDoctor() *cobra.Command {
	flags := &clientFlags{}
	var output format
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong with a data directory or a running server, and say what to do",
		Long: `Look for what is wrong with a data directory or a running server, and say what to
do. The command changes nothing.

Of a data directory it checks modes and owners of files, the release that has
written it, certificates, the encryption key, the disk, the quota and, if no server
runs, whether the database is intact. Of a running server it checks readiness,
backups, and the references of webhooks, conversions and APIServices. With
--kubeconfig it checks only the server of the current context and the credentials in
that file; with --context, those of that context. "config validate" checks the
configuration itself.

A failure means that something does not work or that the server cannot start; a risk,
that something works now, but not for long or not safely.

Exit codes: 0 nothing was found, 1 the checks could not be made, 2 the command line
or the configuration is invalid, 4 something was found.`,
		Example: `  kube-hyper-mini doctor
  kube-hyper-mini doctor --data-dir /var/lib/kube-hyper-mini -o json
  kube-hyper-mini doctor --kubeconfig jane.kubeconfig
  kube-hyper-mini doctor --kubeconfig ~/.kube/config --context staging`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.check(); err != nil {
				return usageError(err)
			}
			report, err := examine(cmd, flags)
			if err != nil {
				return err
			}
			err = output.write(cmd.OutOrStdout(), report, func(w io.Writer) error { return printReport(w, report) })
			if n := len(report.Findings); err == nil && n > 0 {
				return &exitError{ExitFindings, errors.New(quantity(n, "finding"))}
			}
			return err
		},
	}
	flags.addClient(cmd.Flags(), "check the server and the credentials of this kubeconfig, instead of a data directory")
	flags.addContext(cmd.Flags())
	output.add(cmd)
	return cmd
}

// examine checks the data directory and its server or, with --kubeconfig, that file and its server.
func examine(cmd *cobra.Command, flags *clientFlags) (*doctor.Report, error) {
	kubeconfig, unreadable := flags.read(cmd)
	if flags.kubeconfig != "" {
		if unreadable != nil {
			return nil, unreadable
		}
		report := &doctor.Report{Findings: []doctor.Finding{}}
		if !doctor.Kubeconfig(report, flags.kubeconfig, kubeconfig) {
			return report, nil
		}
		return report, doctor.Server(cmd.Context(), report, kubeconfig, nil)
	}
	cfg, err := completed(cmd, &flags.configFlags)
	if err != nil {
		return nil, err
	}
	running := false
	if unreadable == nil {
		_, err := admin.QueryStatus(cmd.Context(), kubeconfig)
		if running = err == nil; !running && flags.plane != "" {
			unreadable = err
			if err := flags.refuseUnknown(cmd); err != nil {
				return nil, err
			}
		}
	}
	if cfg, err = planeConfig(cfg, flags.plane); err != nil {
		return nil, err
	}
	if flags.plane != "" { // its server's
		cfg.Journal, cfg.Backup, cfg.Serving = config.Journal{}, config.Backup{}, config.Serving{}
	}
	checked := parts.Doctor(cfg)
	report, err := doctor.Directory(cmd.Context(), checked, running)
	switch {
	case err != nil:
		return nil, err
	case running:
		return report, doctor.Server(cmd.Context(), report, kubeconfig, checked)
	case unreadable != nil:
		report.Skipped = append(report.Skipped, doctor.Skipped{Check: "server", Reason: unreadable.Error()})
	}
	return report, nil
}

// printReport prints what was found, and which checks were made.
func printReport(w io.Writer, report *doctor.Report) error {
	text := &strings.Builder{}
	if report.Stopped {
		fmt.Fprintf(text, "The server of %s is stopped: only the directory was checked.\n\n", report.DataDir)
	}
	for _, f := range report.Findings {
		fmt.Fprintf(text, "%s  %s: %s\n  %s\n  remedy: %s\n", strings.ToUpper(string(f.Severity)), f.Check, f.Object,
			indent(f.Problem), indent(f.Remedy))
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
