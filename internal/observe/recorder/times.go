package recorder

import (
	"math/bits"
	"time"
)

// Latencies are counted in buckets from a microsecond on: four of the same width for each doubling, so that a limit is at
// most a quarter above what it stands for. The last one begins at a quarter of an hour. A series of them takes 121 numbers,
// whatever it counts: half a kilobyte of float32 for traffic, one kilobyte of int64 for a webhook.
const (
	first    = time.Microsecond // the limit of the first bucket
	parts    = 4                // of a doubling
	doubling = 30
	buckets  = 1 + parts*doubling
)

// bucketOf returns the bucket of a latency: the first one whose limit it does not exceed.
func bucketOf(d time.Duration) int {
	if d <= first {
		return 0
	}
	n := uint64(d-1) / uint64(first/parts) // at least parts
	doubled := bits.Len64(n) - bits.Len(parts)
	return min(1+parts*doubled+int(n>>doubled)-parts, buckets-1)
}

// limitOf returns the upper limit of a bucket, which is in it.
func limitOf(bucket int) time.Duration {
	if bucket == 0 {
		return first
	}
	doubled, part := (bucket-1)/parts, (bucket-1)%parts
	return first / parts * time.Duration(parts+part+1) << doubled
}

// Times counts latencies. What shows latencies counts with it, so that it shows the same numbers.
type Times[N float32 | float64 | int64] struct {
	counts [buckets]N
	sum    N
	max    time.Duration
}

// Add counts a latency that stands for so many.
func (t *Times[N]) Add(d time.Duration, weight N) {
	t.counts[bucketOf(d)] += weight
	t.sum += weight
	t.max = max(t.max, d)
}

// Max returns the longest latency.
func (t *Times[N]) Max() time.Duration { return t.max }

// Quantile returns a time that a part of the latencies did not exceed: the limit of a bucket, or the longest latency.
func (t *Times[N]) Quantile(q float64) time.Duration {
	want, seen := q*float64(t.sum), 0.0
	for n, count := range t.counts[:buckets-1] {
		if seen += float64(count); seen > want {
			return min(limitOf(n), t.max)
		}
	}
	return t.max
}
