package main

import (
	"math"
	"slices"
)

// median of a sample; of an even number, the mean of the two in the middle.
// Nothing has no median: NaN.
func median(sample []float64) float64 {
	if len(sample) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(sample))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// percentile is the smallest value that p percent of the sample do not exceed.
func percentile(sample []float64, p float64) float64 {
	if len(sample) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(sample))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// spread is how far the sample reaches, relative to its median.
func spread(sample []float64) float64 {
	if len(sample) == 0 {
		return math.NaN()
	}
	middle, reach := median(sample), slices.Max(sample)-slices.Min(sample)
	if reach == 0 {
		return 0
	}
	return reach / middle
}

// twentyValues is the quantile of Student's t-distribution for an interval of 95 %
// confidence and the 20 values of a sample.
const twentyValues = 2.093

// interval returns the geometric mean of a sample of 20 ratios, and its interval of 95 %
// confidence.
func interval(ratios []float64) (mean, from, to float64) {
	n, sum, squares := float64(len(ratios)), 0.0, 0.0
	for _, ratio := range ratios {
		sum += math.Log(ratio)
	}
	for _, ratio := range ratios {
		squares += math.Pow(math.Log(ratio)-sum/n, 2)
	}
	reach := twentyValues * math.Sqrt(squares/(n-1)/n)
	return math.Exp(sum / n), math.Exp(sum/n - reach), math.Exp(sum/n + reach)
}
