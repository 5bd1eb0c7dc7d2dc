package side

import (
	"context"
	"math"
	"slices"
	"time"
)

// Percentile sorts took and picks the value that p per cent do not exceed.
func Percentile(took []time.Duration, p float64) time.Duration {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[min(len(took)-1, int(float64(len(took))*p/100))]
}

// Sleep waits, unless the program is to end.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Median is the middle of values, or the mean of the two there; NaN if there are none.
func Median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	if len(v) == 0 {
		return math.NaN()
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
