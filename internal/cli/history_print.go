package cli

import (
	"fmt"
	"io"
	"sync"
	"text/tabwriter"

	"kube-hyper-mini.io/kube-hyper-mini/internal/history"
)

// preciseTime is time.DateTime with milliseconds.
const preciseTime = "2006-01-02 15:04:05.000"

// alignedVersions is how many lines of versions have the same columns. They are printed
// together.
const alignedVersions = 1000

// versionPrinter prints versions: a table as they come, JSON and YAML at the end.
type versionPrinter struct {
	out    io.Writer
	output format
	list   []history.Version // of JSON and YAML
	table  *tabwriter.Writer
	count  int
}

func newVersionPrinter(w io.Writer, output format) *versionPrinter {
	return &versionPrinter{out: w, output: output, table: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
}

func (p *versionPrinter) print(v history.Version) error {
	p.count++
	if p.output != "text" {
		p.list = append(p.list, v)
		return nil
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

// end completes the output.
func (p *versionPrinter) end() error {
	if p.output != "text" {
		return p.output.write(p.out, p.list, nil)
	}
	return p.table.Flush()
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
