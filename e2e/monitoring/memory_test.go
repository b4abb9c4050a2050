package monitoring

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// memory is a storage of a few series. It implements [storage.Queryable] and
// [storage.Querier].
type memory struct{ series []storage.Series }

// load reads the series of a test, in promtool's notation.
func load(t *testing.T, unit unit) *memory {
	t.Helper()
	m := &memory{}
	for _, input := range unit.InputSeries {
		metric, values, err := parser.ParseSeriesDesc(input.Series + " " + input.Values)
		if err != nil {
			t.Fatalf("%s: %v", input.Series, err)
		}
		var samples []chunks.Sample
		for i, value := range values {
			if !value.Omitted {
				samples = append(samples, sample{time.Duration(i) * time.Duration(unit.Interval), value.Value})
			}
		}
		m.series = append(m.series, storage.NewListSeries(metric, samples))
	}
	return m
}

// Querier implements [storage.Queryable].
func (m *memory) Querier(int64, int64) (storage.Querier, error) { return m, nil }

// Select implements [storage.Querier].
func (m *memory) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	set := &seriesSet{}
	for _, series := range m.series {
		if matches(series.Labels(), matchers) {
			set.rest = append(set.rest, series)
		}
	}
	return set
}

func matches(metric labels.Labels, matchers []*labels.Matcher) bool {
	for _, matcher := range matchers {
		if !matcher.Matches(metric.Get(matcher.Name)) {
			return false
		}
	}
	return true
}

// LabelValues implements [storage.Querier]; the engine does not call it.
func (m *memory) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// LabelNames implements [storage.Querier]; the engine does not call it.
func (m *memory) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// Close implements [storage.Querier].
func (m *memory) Close() error { return nil }

// seriesSet implements [storage.SeriesSet].
type seriesSet struct {
	current storage.Series
	rest    []storage.Series
}

// Next implements [storage.SeriesSet].
func (s *seriesSet) Next() bool {
	if len(s.rest) == 0 {
		return false
	}
	s.current, s.rest = s.rest[0], s.rest[1:]
	return true
}

// At implements [storage.SeriesSet].
func (s *seriesSet) At() storage.Series { return s.current }

// Err implements [storage.SeriesSet].
func (s *seriesSet) Err() error { return nil }

// Warnings implements [storage.SeriesSet].
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// sample implements [chunks.Sample] for a number.
type sample struct {
	at    time.Duration // after the epoch
	value float64
}

// T implements [chunks.Sample].
func (s sample) T() int64 { return s.at.Milliseconds() }

// F implements [chunks.Sample].
func (s sample) F() float64 { return s.value }

// H implements [chunks.Sample].
func (s sample) H() *histogram.Histogram { return nil }

// FH implements [chunks.Sample].
func (s sample) FH() *histogram.FloatHistogram { return nil }

// Type implements [chunks.Sample].
func (s sample) Type() chunkenc.ValueType { return chunkenc.ValFloat }

// Copy implements [chunks.Sample].
func (s sample) Copy() chunks.Sample { return s }
