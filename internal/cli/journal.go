package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance/parts"
	"kube-hyper-mini.io/kube-hyper-mini/internal/journal"
)

// fromFlags locate a journal.
type fromFlags struct{ from, endpoint, region string }

func (f *fromFlags) add(flags *pflag.FlagSet, usage string) {
	flags.StringVar(&f.from, "from", "", usage)
	flags.StringVar(&f.endpoint, "endpoint", "", "with --from s3://...: URL of the S3 server, instead of journal.endpoint")
	flags.StringVar(&f.region, "region", "", "with --from s3://...: region of the bucket, instead of journal.region")
}

// location returns the location of the flags or, without them, of the configuration.
func (f *fromFlags) location(cfg *config.ServerConfiguration) journal.Location {
	location := parts.JournalLocation(cfg, f.from)
	location.Endpoint = cmp.Or(f.endpoint, location.Endpoint)
	location.Region = cmp.Or(f.region, location.Region)
	return location
}

// journalRows are the lines about the journal, if there is one.
func journalRows(a *journal.Account) (rows []string) {
	if a == nil {
		return nil
	}
	if a.Error != "" {
		rows = append(rows, "FAILED: "+a.Error)
	}
	if a.Warning != "" {
		rows = append(rows, "WARNING: "+a.Warning)
	}
	if a.Standby {
		return append(rows, a.Destination+", written by the server that runs the controllers")
	}
	text := fmt.Sprintf("%s, revision %d", a.Destination, a.Revision)
	if a.LagUnknown || a.Revision == 0 && a.LagRevisions > 0 { // a restored server has written nothing yet
		text += fmt.Sprintf(", behind by an unknown number of revisions and %s", seconds(a.LagSeconds))
	} else if a.LagRevisions > 0 || a.LagSeconds > 0 {
		text += fmt.Sprintf(", behind by %d revisions and %s", a.LagRevisions, seconds(a.LagSeconds))
	}
	if a.SpoolBytes > 0 {
		text += ", " + bytes(a.SpoolBytes) + " in the spool"
	}
	return append(rows, text)
}

// restoreTarget reads the flags --at and --revision.
func restoreTarget(at string, revision int64) (journal.Target, error) {
	target := journal.Target{Revision: revision}
	if revision < 0 {
		return target, usageError(fmt.Errorf("--revision %d: write a positive number", revision))
	}
	if at == "" {
		return target, nil
	}
	if revision != 0 {
		return target, usageError(fmt.Errorf("--at and --revision exclude each other: give one of them"))
	}
	t, err := parseTime(at, time.Now())
	if err != nil {
		return target, usageError(fmt.Errorf("--at %w", err))
	}
	if t.After(time.Now()) {
		return target, usageError(fmt.Errorf("--at %s is in the future: give an earlier time, "+
			"or leave it out for the newest state", at))
	}
	target.At = t
	return target, nil
}

// parseTime reads a time as the lists print it, in RFC 3339, or as a duration before now. A
// time of a list is the end of its second: lists leave out the milliseconds.
func parseTime(text string, now time.Time) (time.Time, error) {
	if ago, found := strings.CutSuffix(text, " ago"); found {
		before, err := config.ParseDuration(strings.TrimSpace(ago))
		if err != nil {
			return time.Time{}, err
		}
		return now.Add(-before), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			if end := t.Add(time.Second - time.Millisecond); layout == time.DateTime && t.Nanosecond() == 0 && !end.After(now) {
				t = end
			}
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time: write 2026-11-21T15:04:05Z, \"2026-11-21 15:04:05\" in local "+
		"time, or \"10m ago\"", text)
}

// parseSince reads a time as parseTime does, or a duration before now. Without a text it is zero.
func parseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if before, err := config.ParseDuration(text); err == nil && before >= 0 {
		return now.Add(-before), nil
	}
	return parseTime(text, now)
}

// listJournal prints what can be restored from a journal.
func listJournal(cmd *cobra.Command, cfg *config.ServerConfiguration, from *fromFlags, output format) error {
	store, err := from.location(cfg).Open()
	if err != nil {
		return err
	}
	windows, err := journal.Windows(cmd.Context(), store)
	if err != nil {
		return err
	}
	if len(windows) == 0 {
		return fmt.Errorf("no journal in %s: check the name; a server writes one with journal.destination", store)
	}
	return output.write(cmd.OutOrStdout(), windows, func(w io.Writer) error { return printWindows(w, windows) })
}

func printWindows(w io.Writer, windows []journal.Window) error {
	err := writeTable(w, func(row func(format string, args ...any)) {
		row("CHAIN\tFROM\tTO\tREVISIONS\tBASES\tSEGMENTS\tSIZE\tHOST\tBEGINS BECAUSE")
		for _, window := range windows {
			from, to := "-", "-"
			if window.HasBase {
				from, to = window.From.Local().Format(time.DateTime), window.To.Local().Format(time.DateTime)
			}
			row("%d\t%s\t%s\t%d to %d\t%d\t%d\t%s\t%s\t%s", window.Chain, from, to, window.FirstRevision, window.LastRevision,
				window.Bases, window.Segments, bytes(window.SizeBytes), window.Host, window.Reason)
		}
	})
	if err != nil {
		return err
	}
	text := ""
	for _, window := range windows {
		if window.Gap != "" {
			text += fmt.Sprintf("before chain %d: %s\n", window.Chain, window.Gap)
		}
		for _, gap := range window.Gaps {
			text += fmt.Sprintf("chain %d: %s\n", window.Chain, gap)
		}
	}
	_, err = io.WriteString(w, text)
	return err
}
