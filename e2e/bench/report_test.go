package main

import (
	"math"
	"strings"
	"testing"
)

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		unit  unit
		value float64
		want  string
	}{
		{inSeconds, 0.0123, "12.3 ms"},
		{inSeconds, 0.9, "900 ms"},
		{inSeconds, 2.7, "2.70 s"},
		{inBytes, 512, "512 B"},
		{inBytes, 11e3, "11.0 kB"},
		{inBytes, 405e6, "405 MB"},
		{inPercent, 2.1, "2.10 %"},
		{plain, 5280, "5280"},
		{inSeconds, math.NaN(), "-"},
	} {
		if got := c.unit.format(c.value); got != c.want {
			t.Errorf("format(%v %q) = %q, want %q", c.value, c.unit, got, c.want)
		}
	}
}

func TestMissed(t *testing.T) {
	for _, c := range []struct {
		row          row
		value, ratio float64
		want         bool
	}{
		{row{ratio: 0.25, limit: 0.9}, 0.6, 0.2, false},
		{row{ratio: 0.25, limit: 0.9}, 0.6, 0.3, true},
		{row{ratio: 0.25, limit: 0.9}, 1.0, 0.2, true},
		{row{higher: true, ratio: 1.8}, 2000, 1.9, false},
		{row{higher: true, ratio: 1.8}, 2000, 1.7, true},
		{row{ratio: 0.25}, 5, math.NaN(), false},
		{row{}, 5, 5, false},
	} {
		if got := c.row.missed(c.value, c.ratio); got != c.want {
			t.Errorf("%+v with %v, ratio %v: missed = %t, want %t", c.row, c.value, c.ratio, got, c.want)
		}
	}
}

// TestTable follows samples through medians, ratio and target to the text.
func TestTable(t *testing.T) {
	f := figure{name: "example", rows: []row{
		{name: "start", unit: inSeconds, ratio: 0.25, limit: 0.9},
		{name: "rate", unit: plain, higher: true, ratio: 1.8, reason: "the disk"},
		{name: "extra", unit: inBytes},
	}}
	r := newReport(settings{runs: 3, fsync: true})
	r.add(f, map[string][][]float64{
		ours:   {{0.5, 150, 0}, {0.4, 100, 0}, {0.6, 120, 0}},
		theirs: {{2.5, 100, 0}, {2.0, 100, 0}, {3.0, 100, 0}},
	})
	var out strings.Builder
	if err := r.writeTable(&out); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"FIGURE  OURS    THEIRS  RATIO  TARGET             SPREAD",
		"start   500 ms  2.50 s  0.20   <= 0.25, <= 900 ms  40% / 40%",
		"rate    120     100     1.20   >= 1.80 MISSED      42% / 0%",
		"extra   0 B     0 B     -                          0% / 0%",
	}
	lines := strings.Split(out.String(), "\n")
	for i, line := range want {
		if got := strings.Join(strings.Fields(lines[i]), " "); got != strings.Join(strings.Fields(line), " ") {
			t.Errorf("line %d is %q, want %q", i+1, got, line)
		}
	}
	if reason := "missed: rate: the disk"; !strings.Contains(out.String(), reason) {
		t.Errorf("%q is not in:\n%s", reason, out.String())
	}
}

// TestOneSide prints dashes for the side that was not measured.
func TestOneSide(t *testing.T) {
	f := figure{name: "example", rows: []row{{name: "start", unit: inSeconds, ratio: 0.25}}}
	r := newReport(settings{runs: 1})
	r.add(f, map[string][][]float64{ours: {{0.5}}})
	if l := r.Lines[0]; l.Ratio != nil || l.Missed {
		t.Errorf("a line without the other side has a ratio or misses its target: %+v", l)
	}
	var out strings.Builder
	if err := r.writeTable(&out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "-") || strings.Contains(out.String(), "NaN") {
		t.Errorf("no dashes, or NaN, in:\n%s", out.String())
	}
}

// TestFiguresAreComplete finds figures whose name is taken or that have no rows.
func TestFiguresAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range figures(settings{crds: 1}) {
		if seen[f.name] || len(f.rows) == 0 || f.measure == nil {
			t.Errorf("figure %q: taken %t, %d rows, measured %t", f.name, seen[f.name], len(f.rows), f.measure != nil)
		}
		seen[f.name] = true
		if chosen, err := choose(figures(settings{crds: 1}), f.name); err != nil || len(chosen) != 1 {
			t.Errorf("choose(%q) = %d figures, %v", f.name, len(chosen), err)
		}
	}
	if _, err := choose(figures(settings{}), "nothing"); err == nil {
		t.Error("choose took a name that no figure has")
	}
}
