package histogram

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// kind is what all series of a histogram share.
type kind struct {
	bounds []float64 // the highest value of each bucket but the last, which has no bound

	native bool
	schema int     // of new series
	zero   float64 // what is as near to zero counts as zero
	most   int     // native buckets
}

// newKind panics if the options make no sense, or are of what there is not here.
func newKind(o prometheus.HistogramOpts) *kind {
	if o.NativeHistogramMinResetDuration != 0 || o.NativeHistogramMaxZeroThreshold != 0 {
		panic("of native buckets that are too many, histograms only merge neighbors")
	}
	k := &kind{bounds: o.Buckets, native: o.NativeHistogramBucketFactor > 1}
	if k.native {
		k.schema = schemaOf(o.NativeHistogramBucketFactor)
		k.zero = max(cmp.Or(o.NativeHistogramZeroThreshold, prometheus.DefNativeHistogramZeroThreshold), 0)
		k.most = cmp.Or(int(o.NativeHistogramMaxBucketNumber), math.MaxInt)
	} else if len(k.bounds) == 0 {
		k.bounds = prometheus.DefBuckets
	}
	for n := range len(k.bounds) - 1 {
		if k.bounds[n] >= k.bounds[n+1] {
			panic(fmt.Errorf("bounds of buckets must increase: %v", k.bounds))
		}
	}
	if last := len(k.bounds) - 1; last >= 0 && math.IsInf(k.bounds[last], 1) {
		k.bounds = k.bounds[:last]
	}
	return k
}

// place is where an observation counts.
type place struct {
	bucket int // that is not there: the last one
	key    int // as keyOf returns it, of what is not near zero
}

func (k *kind) place(value float64) place {
	at := place{bucket: k.bucket(value)}
	if k.native && math.Abs(value) > k.zero {
		at.key = keyOf(math.Abs(value))
	}
	return at
}

// bucket returns the first bucket that value is not above. Most values are in one of the first, which a plain search finds soonest.
func (k *kind) bucket(value float64) int {
	n := 0
	for n < len(k.bounds) && !(value <= k.bounds[n]) { // so that what is no number is in the last one
		n++
	}
	return n
}

// counts are what has been observed.
type counts struct {
	sum     float64
	count   uint64
	buckets []uint64 // but the last one
	native  *exponential
}

// count counts some observations.
func (k *kind) count(values []float64) *counts {
	c := &counts{buckets: make([]uint64, len(k.bounds))}
	if k.native {
		c.native = &exponential{schema: int32(k.schema)}
	}
	for _, value := range values {
		c.observe(k, value, k.place(value))
	}
	return c
}

func (c *counts) observe(k *kind, value float64, at place) {
	c.sum += value
	c.count++
	if at.bucket < len(c.buckets) {
		c.buckets[at.bucket]++
	}
	if c.native != nil {
		c.native.observe(k, value, at.key)
	}
}

func (c *counts) clone() *counts {
	cloned := *c
	cloned.buckets = slices.Clone(c.buckets)
	if c.native != nil {
		cloned.native = c.native.clone()
	}
	return &cloned
}

// write makes the message of counts, which it takes over.
func (c *counts) write(k *kind) *dto.Histogram {
	out := &dto.Histogram{SampleCount: &c.count, SampleSum: &c.sum, Bucket: make([]*dto.Bucket, len(k.bounds))}
	buckets, below := make([]dto.Bucket, len(k.bounds)), uint64(0)
	for n := range buckets {
		below += c.buckets[n]
		c.buckets[n] = below
		buckets[n].CumulativeCount, buckets[n].UpperBound = &c.buckets[n], &k.bounds[n]
		out.Bucket[n] = &buckets[n]
	}
	if c.native != nil {
		c.native.write(k, out)
	}
	return out
}
