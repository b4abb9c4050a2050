package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"text/tabwriter"

	"kube-hyper-mini.io/kube-hyper-mini/internal/history"
)

// alignedVersions is how many lines of versions have the same columns. They are printed
// together.
const alignedVersions = 1000

// versionPrinter prints versions as they come, as a table or as JSON.
type versionPrinter struct {
	json  *bufio.Writer // nil for a table
	table *tabwriter.Writer
	count int
}

func newVersionPrinter(w io.Writer, output string) *versionPrinter {
	if output == "json" {
		return &versionPrinter{json: bufio.NewWriter(w)}
	}
	return &versionPrinter{table: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
}

func (p *versionPrinter) print(v history.Version) error {
	p.count++
	if p.json != nil {
		return p.printItem(v)
	}
	if p.count == 1 {
		_, _ = fmt.Fprintln(p.table, "REVISION\tTIME\tCHANGE\tMANAGER\tSIZE") // Flush reports what failed
	}
	at, manager, size := v.Time.Local().Format(preciseTime), v.Manager, "-"
	if v.Before {
		at = "< " + at
	}
	if manager == "" {
		manager = "-"
	}
	if v.Change != history.Deleted {
		size = bytes(int64(v.SizeBytes))
	}
	if v.Problem != "" {
		manager = "(" + v.Problem + ")"
	}
	_, _ = fmt.Fprintf(p.table, "%d\t%s\t%s\t%s\t%s\n", v.Revision, at, v.Change, manager, size)
	if p.count%alignedVersions == 0 {
		return p.table.Flush()
	}
	return nil
}

// printItem prints an item of the list, in the form of [printJSON].
func (p *versionPrinter) printItem(v history.Version) error {
	item, err := json.MarshalIndent(v, "  ", "  ")
	if err != nil {
		return fmt.Errorf("print as JSON: %w", err)
	}
	separator := ",\n  "
	if p.count == 1 {
		separator = "[\n  "
	}
	_, _ = p.json.WriteString(separator) // the next call reports what failed
	_, err = p.json.Write(item)
	return err
}

// end completes the output. There is at least one version.
func (p *versionPrinter) end() error {
	if p.json == nil {
		return p.table.Flush()
	}
	_, _ = p.json.WriteString("\n]\n") // Flush reports what failed
	return p.json.Flush()
}

// firstWrite calls before when something is written for the first time.
type firstWrite struct {
	to     io.Writer
	before func()
	once   sync.Once
}

// Write implements [io.Writer].
func (f *firstWrite) Write(data []byte) (int, error) {
	f.once.Do(f.before)
	return f.to.Write(data)
}
