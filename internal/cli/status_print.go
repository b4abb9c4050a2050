package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/cli-runtime/pkg/printers"

	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/endpoints"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/manifests"
)

func printStatus(w io.Writer, status *admin.Status) error {
	return writeTable(w, func(row func(format string, args ...any)) {
		each := func(name string, texts []string) {
			for _, text := range texts {
				row("%s\t%s", name, text)
			}
		}
		if status.Ready {
			row("ready\tsince %s (%s after the start)", status.ReadySince.Local().Format(time.DateTime),
				seconds(status.StartSeconds))
		} else {
			row("not ready\t%s", status.Reason)
		}
		row("server\t%s (pid %d)", status.Server, status.PID)
		row("data\t%s", status.DataDir)
		row("memory\t%s", memoryText(status.Memory))
		row("versions\tkube-hyper-mini %s, Kubernetes %s, etcd %s, Go %s", status.Versions.Server,
			status.Versions.Kubernetes, status.Versions.Etcd, status.Versions.Go)
		row("database\t%s", databaseText(status.Database))
		if types := status.CustomTypes; types != nil {
			row("types\t%s, %d with objects, %d in memory", quantity(types.Installed, "custom resource definition"),
				types.Populated, types.Resident)
		}
		if status.Objects != nil {
			row("objects\t%d", *status.Objects)
		}
		if status.Database.ReadOnly != "" {
			row("read-only\t%s", status.Database.ReadOnly)
		}
		each("remote", remoteRows(status.Remote))
		if status.Database.NearQuota {
			row("warning\tthe database takes %d %% of its quota: delete objects, or raise etcd.embedded.quotaBackend "+
				"and restart", 100*status.Database.SizeBytes/max(status.Database.QuotaBytes, 1))
		}
		each("manifests", manifestRows(status.Manifests))
		each("backup", backupRows(status.Backups))
		each("journal", journalRows(status.Journal))
		for _, name := range slices.Sorted(maps.Keys(status.Certificates)) {
			row("certificate\t%s, until %s", name, status.Certificates[name].Local().Format(time.DateOnly))
		}
		if status.CertificatesError != "" {
			row("certificate\t%s", status.CertificatesError)
		}
		for _, w := range status.Warnings {
			row("logged\t%s", warningText(w))
		}
	})
}

// manifestRows are the objects of manifests.dir and its failures, if there is one.
func manifestRows(m *manifests.Summary) []string {
	if m == nil {
		return nil
	}
	rows := []string{quantity(m.Objects, "object")}
	for line := range strings.Lines(m.Error) {
		rows = append(rows, "FAILED: "+strings.TrimSuffix(line, "\n"))
	}
	return rows
}

// backupRows returns the lines about backups.
func backupRows(b backup.Account) []string {
	var rows []string
	if b.Error != "" {
		rows = append(rows, "FAILED: "+b.Error)
	}
	switch at := b.Last.Local().Format(time.DateTime); {
	case b.Last.IsZero():
		rows = append(rows, "none yet")
	case b.File == "":
		rows = append(rows, at+", sent to a client")
	default:
		rows = append(rows, at+", "+b.File)
	}
	switch {
	case b.Schedule == "":
		rows = append(rows, "none is scheduled (backup.schedule)")
	case !b.Next.IsZero():
		rows = append(rows, "next at "+b.Next.Local().Format(time.DateTime))
	}
	return rows
}

func memoryText(usage admin.Memory) string {
	text := fmt.Sprintf("%s of heap, %d goroutines", bytes(usage.HeapBytes), usage.Goroutines)
	if usage.AnonymousBytes > 0 {
		text = fmt.Sprintf("%s, and %s of files; %s", bytes(usage.AnonymousBytes),
			bytes(usage.ResidentBytes-usage.AnonymousBytes), text)
	}
	return text
}

// remoteRows returns the lines about servers that this one calls.
func remoteRows(remote *endpoints.Remote) []string {
	if remote == nil || remote.APIServices+remote.ServiceEndpoints == 0 {
		return nil
	}
	rows := []string{fmt.Sprintf("%d APIServices, %d ServiceEndpoints, %d of them fail", remote.APIServices,
		remote.ServiceEndpoints, len(remote.Failing))}
	for _, failing := range remote.Failing {
		rows = append(rows, printers.EscapeTerminal(fmt.Sprintf("FAILED: %s: %s", failing,
			strings.ReplaceAll(failing.Reason, "\n", "; "))))
	}
	return rows
}

// warningText is a warning of the log in one line.
func warningText(w logging.Warning) string {
	text := fmt.Sprintf("%s %s: %s", w.Last.Local().Format(time.TimeOnly), w.Level,
		printers.EscapeTerminal(strings.ReplaceAll(w.Text, "\n", " ")))
	if w.Count > 1 {
		text += fmt.Sprintf(" (%d times)", w.Count)
	}
	return text
}

func databaseText(database admin.Database) string {
	if database.Error != "" {
		return database.Error
	}
	quota := ""
	if database.QuotaBytes > 0 {
		quota = "quota " + bytes(database.QuotaBytes) + ", "
	}
	return fmt.Sprintf("%s, %s in use, %srevision %d", bytes(database.SizeBytes), bytes(database.InUseBytes), quota,
		database.Revision)
}
