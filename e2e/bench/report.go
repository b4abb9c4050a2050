package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// unit selects the format of a value.
type unit string

const (
	inSeconds unit = "s"
	inBytes   unit = "B"
	inPercent unit = "%"
	plain     unit = ""
)

// format prints a value with about three significant digits.
func (u unit) format(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case u == inSeconds && v < 1:
		return digits(v*1000) + " ms"
	case u == inBytes && v >= 1e6:
		return digits(v/1e6) + " MB"
	case u == inBytes && v >= 1e3:
		return digits(v/1e3) + " kB"
	case u == inPercent:
		return digits(v) + " %"
	case u == plain:
		return digits(v)
	}
	return digits(v) + " " + string(u)
}

func digits(v float64) string {
	size := math.Abs(v)
	switch {
	case size >= 100 || size == 0:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case size >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case size < 0.1:
		return strconv.FormatFloat(v, 'f', 4, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// report is the outcome, as it is written to the JSON file.
type report struct {
	Time  time.Time `json:"time"`
	CPUs  int       `json:"cpus"`
	Fsync bool      `json:"fsync"`
	Runs  int       `json:"runs"`
	Go    string    `json:"go"`
	Lines []line    `json:"figures"`
	// Notes say what was not measured, and why.
	Notes []string `json:"notes,omitempty"`
}

// line is a row of the table with the samples behind it.
type line struct {
	Figure string    `json:"figure"`
	Name   string    `json:"name"`
	Unit   unit      `json:"unit"`
	Ours   []float64 `json:"ours"`
	Theirs []float64 `json:"theirs"`
	// Ratio of the medians; absent when a side was not measured.
	Ratio  *float64 `json:"ratio,omitempty"`
	Target string   `json:"target,omitempty"`
	Missed bool     `json:"missed,omitempty"`
	Reason string   `json:"reason,omitempty"`
}

func newReport(s settings) *report {
	return &report{Time: time.Now().UTC(), CPUs: runtime.NumCPU(), Fsync: s.fsync, Runs: s.runs, Go: runtime.Version()}
}

// add takes the values of a figure: for each side, for each run, for each row.
func (r *report) add(f figure, samples map[string][][]float64) {
	for i, row := range f.rows {
		l := line{Figure: f.name, Name: row.name, Unit: row.unit, Ours: column(samples[ours], i), Theirs: column(samples[theirs], i), Target: row.target()}
		ratio := math.NaN()
		if their := median(l.Theirs); their != 0 {
			ratio = median(l.Ours) / their
		}
		if !math.IsNaN(ratio) {
			l.Ratio = &ratio
		}
		if l.Missed = row.missed(median(l.Ours), ratio); l.Missed {
			l.Reason = row.reason
		}
		r.Lines = append(r.Lines, l)
	}
}

func column(runs [][]float64, i int) []float64 {
	values := make([]float64, 0, len(runs))
	for _, run := range runs {
		if !math.IsNaN(run[i]) { // it could not be measured
			values = append(values, run[i])
		}
	}
	return values
}

// target in words.
func (r row) target() string {
	sign := "<="
	if r.higher {
		sign = ">="
	}
	var bounds []string
	if r.ratio != 0 {
		bounds = append(bounds, fmt.Sprintf("%s %.2f", sign, r.ratio))
	}
	if r.limit != 0 {
		bounds = append(bounds, sign+" "+r.unit.format(r.limit))
	}
	return strings.Join(bounds, ", ")
}

// missed reports whether a bound is not kept. What was not measured misses none.
func (r row) missed(value, ratio float64) bool {
	beyond := func(v, bound float64) bool {
		if bound == 0 || math.IsNaN(v) {
			return false
		}
		if r.higher {
			return v < bound
		}
		return v > bound
	}
	return beyond(ratio, r.ratio) || beyond(value, r.limit)
}

// writeTable prints the table and, below it, why targets were missed.
func (r *report) writeTable(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "FIGURE\tOURS\tTHEIRS\tRATIO\tTARGET\tSPREAD") // Flush reports what failed
	var reasons []string
	for _, l := range r.Lines {
		ratio, target := "-", l.Target
		if l.Ratio != nil {
			ratio = digits(*l.Ratio)
		}
		if l.Missed {
			target += " MISSED"
			reason := l.Reason
			if reason == "" {
				reason = "no reason is known"
			}
			reasons = append(reasons, "missed: "+l.Name+": "+reason)
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", l.Name, l.Unit.format(median(l.Ours)), l.Unit.format(median(l.Theirs)),
			ratio, target, relative(l.Ours)+" / "+relative(l.Theirs)) // Flush reports what failed
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\nRuns: %d, CPUs: %d, fsync: %t. Values are medians, the ratio is ours / theirs, the spread (largest - smallest) / median.\n", r.Runs, r.CPUs, r.Fsync)
	for _, reason := range reasons {
		if err == nil {
			_, err = fmt.Fprintln(out, reason)
		}
	}
	for _, note := range r.Notes {
		if err == nil {
			_, err = fmt.Fprintln(out, "not measured: "+note)
		}
	}
	return err
}

func relative(sample []float64) string {
	s := spread(sample)
	if math.IsNaN(s) {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", s*100)
}

func (r *report) writeJSON(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the results: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}

// describe prints the first values of a run.
func describe(f figure, values []float64) string {
	const most = 4
	var parts []string
	for i, v := range values[:min(most, len(values))] {
		parts = append(parts, f.rows[i].unit.format(v))
	}
	if len(values) > most {
		parts = append(parts, "...")
	}
	return strings.Join(parts, ", ")
}
