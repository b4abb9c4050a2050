package main

import (
	"math"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		sample []float64
		want   float64
	}{
		{[]float64{3}, 3},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 3, 2}, 2.5},
	} {
		if got := median(c.sample); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.sample, got, c.want)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing = %v, want NaN", got)
	}
	sample := []float64{2, 1}
	median(sample)
	if sample[0] != 2 {
		t.Error("median sorted the caller's sample")
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[len(hundred)-1-i] = float64(i + 1)
	}
	for p, want := range map[float64]float64{0: 1, 50: 50, 99: 99, 99.5: 100, 100: 100} {
		if got := percentile(hundred, p); got != want {
			t.Errorf("percentile(1..100, %v) = %v, want %v", p, got, want)
		}
	}
	if got := percentile([]float64{7}, 99); got != 7 {
		t.Errorf("percentile of one value = %v, want 7", got)
	}
	if got := percentile(nil, 50); !math.IsNaN(got) {
		t.Errorf("percentile of nothing = %v, want NaN", got)
	}
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		sample []float64
		want   float64
	}{
		{[]float64{4}, 0},
		{[]float64{0, 0}, 0},
		{[]float64{8, 10, 13}, 0.5},
	} {
		if got := spread(c.sample); got != c.want {
			t.Errorf("spread(%v) = %v, want %v", c.sample, got, c.want)
		}
	}
}

func TestCPUSeconds(t *testing.T) {
	got, err := cpuSeconds("42 (a (strange) name) S 1 42 42 0 -1 4194560 100 0 0 0 250 150 0 0 20 0 9 0 100")
	if err != nil || got != 4 {
		t.Errorf("cpuSeconds = %v, %v, want 4 s of 250+150 ticks", got, err)
	}
	if _, err := cpuSeconds("42 (short) S 1"); err == nil {
		t.Error("cpuSeconds took a line without times")
	}
}

func TestInterval(t *testing.T) {
	var ratios []float64
	for range 10 {
		ratios = append(ratios, 0.8, 1.25)
	}
	mean, from, to := interval(ratios)
	// The deviation of the logarithms is ln(1.25) * sqrt(20/19), and its 20th root 0.0512.
	for _, c := range []struct{ got, want float64 }{{mean, 1}, {from, math.Exp(-2.093 * 0.05119)}, {to, math.Exp(2.093 * 0.05119)}} {
		if math.Abs(c.got-c.want) > 0.001 {
			t.Errorf("the interval is %v to %v around %v, want %v", from, to, mean, c.want)
		}
	}
}
