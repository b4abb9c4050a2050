package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
)

func newStatus() *cobra.Command {
	flags := &configFlags{}
	var output string
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print whether the server is ready, since when, and the state of its components",
		Long: `Print whether the server is ready, since when, and the state of its components.

A server whose database is full is ready: it serves reads and deletions. The line
"read-only" has the reason and the remedy.

Exit codes: 0 ready, 3 not ready or not running.`,
		Example: `  kube-hyper-mini status
  kube-hyper-mini status --wait 30s -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output, "text", "json", "yaml"); err != nil {
				return err
			}
			status, err := awaitStatus(cmd, flags, wait)
			if err != nil {
				return reportStopped(cmd, err, output)
			}
			if err := printStatus(cmd.OutOrStdout(), status, output); err != nil {
				return err
			}
			if !status.Ready {
				return &exitError{ExitNotReady, errors.New("not ready: " + status.Reason)}
			}
			return nil
		},
	}
	flags.locate(cmd.Flags())
	outputFlag(cmd, &output, "text", "json", "yaml")
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait at most this time for the server to become ready")
	return cmd
}

// awaitStatus queries the status until the server is ready or the time is over.
func awaitStatus(cmd *cobra.Command, flags *configFlags, wait time.Duration) (*admin.Status, error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), wait)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		data, err := readLocalKubeconfig(cmd, flags)
		if err == nil {
			var status *admin.Status
			if status, err = admin.QueryStatus(cmd.Context(), data); err == nil && (status.Ready || wait == 0) {
				return status, nil
			} else if err == nil && ctx.Err() != nil {
				return status, nil
			}
		}
		select {
		case <-ctx.Done():
			if err == nil {
				err = errors.New("the server is not ready")
			}
			var exit *exitError
			if errors.As(err, &exit) {
				return nil, err
			}
			return nil, &exitError{ExitNotReady, err}
		case <-ticker.C:
		}
	}
}

// reportStopped prints the status of a server that does not answer, for programs
// that read it, and returns the error.
func reportStopped(cmd *cobra.Command, err error, output string) error {
	var exit *exitError
	if output == "text" || !errors.As(err, &exit) || exit.code != ExitNotReady {
		return err
	}
	stopped := struct {
		Ready  bool   `json:"ready"`
		Reason string `json:"reason"`
	}{Reason: err.Error()}
	return errors.Join(err, printValue(cmd.OutOrStdout(), stopped, output))
}

// checkOutput returns an error for an invalid --output. Without formats, text and json
// are valid.
func checkOutput(output string, formats ...string) error {
	if len(formats) == 0 {
		formats = []string{"text", "json"}
	}
	if !slices.Contains(formats, output) {
		return usageError(fmt.Errorf("--output %q is not supported; allowed: %s", output, strings.Join(formats, ", ")))
	}
	return nil
}

// printValue prints the value as JSON or YAML.
func printValue(w io.Writer, value any, output string) error {
	if output == "json" {
		return printJSON(w, value)
	}
	data, err := yaml.Marshal(value)
	if err != nil {
		return fmt.Errorf("print as YAML: %w", err)
	}
	_, err = w.Write(data)
	return err
}

func printJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

func printStatus(w io.Writer, status *admin.Status, output string) error {
	if output != "text" {
		return printValue(w, status, output)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(table, name+"\t"+format+"\n", args...) // Flush reports what failed
	}
	if status.Ready {
		row("ready", "since %s (%s after the start)", status.ReadySince.Local().Format(time.DateTime), seconds(status.StartSeconds))
	} else {
		row("not ready", "%s", status.Reason)
	}
	row("server", "%s (pid %d)", status.Server, status.PID)
	row("data", "%s", status.DataDir)
	row("versions", "kube-hyper-mini %s, Kubernetes %s, etcd %s, Go %s", status.Versions.Server, status.Versions.Kubernetes, status.Versions.Etcd, status.Versions.Go)
	if status.Database.Error != "" {
		row("database", "%s", status.Database.Error)
	} else {
		quota := ""
		if status.Database.QuotaBytes > 0 {
			quota = "quota " + bytes(status.Database.QuotaBytes) + ", "
		}
		row("database", "%s, %s in use, %srevision %d", bytes(status.Database.SizeBytes), bytes(status.Database.InUseBytes), quota, status.Database.Revision)
	}
	if types := status.CustomTypes; types != nil {
		row("types", "%d custom resource definitions, %d with objects", types.Installed, types.Populated)
	}
	if status.Database.ReadOnly != "" {
		row("read-only", "%s", status.Database.ReadOnly)
	}
	if status.Database.NearQuota {
		row("warning", "the database takes %d %% of its quota: delete objects, or raise etcd.embedded.quotaBackend and restart", 100*status.Database.SizeBytes/max(status.Database.QuotaBytes, 1))
	}
	for _, text := range manifestRows(status.Manifests) {
		row("manifests", "%s", text)
	}
	for _, text := range backupRows(status.Backups) {
		row("backup", "%s", text)
	}
	if status.Archive != nil {
		for _, text := range archiveRows(status.Archive) {
			row("archive", "%s", text)
		}
	}
	for _, component := range status.Components {
		row("component", "%s, up in %s", component.Name, seconds(component.StartSeconds))
	}
	names := make([]string, 0, len(status.Certificates))
	for name := range status.Certificates {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		row("certificate", "%s, until %s", name, status.Certificates[name].Local().Format(time.DateOnly))
	}
	if status.CertificatesError != "" {
		row("certificate", "%s", status.CertificatesError)
	}
	return table.Flush()
}

// manifestRows are the objects of manifests.dir and its failures, if there is one.
func manifestRows(m *admin.Manifests) []string {
	if m == nil {
		return nil
	}
	rows := []string{fmt.Sprintf("%d objects", m.Objects)}
	for line := range strings.Lines(m.Error) {
		rows = append(rows, "FAILED: "+strings.TrimSuffix(line, "\n"))
	}
	return rows
}

// backupRows returns the lines about scheduled backups.
func backupRows(b backup.Account) []string {
	var rows []string
	if b.Error != "" {
		rows = append(rows, "FAILED: "+b.Error)
	}
	if !b.Last.IsZero() {
		rows = append(rows, fmt.Sprintf("%s, %s", b.Last.Local().Format(time.DateTime), b.File))
	}
	if !b.Next.IsZero() {
		rows = append(rows, "next at "+b.Next.Local().Format(time.DateTime))
	}
	return rows
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}

func bytes(n int64) string {
	if n < 0 {
		return "unknown"
	}
	return humanize.IBytes(uint64(n))
}
