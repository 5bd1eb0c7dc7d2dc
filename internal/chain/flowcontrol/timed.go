package flowcontrol

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// timed is a histogram of a value over time: each nanosecond is an observation, so that short peaks count little.
type timed struct {
	desc    *prometheus.Desc
	buckets []float64
	now     func() time.Time
	mu      sync.Mutex
	values  map[string]*timedValue // guarded by mu
}

func newTimed(name, help string, buckets []float64, labels []string, now func() time.Time) *timed {
	return &timed{desc: prometheus.NewDesc(name, help, labels, nil), buckets: buckets, now: now, values: map[string]*timedValue{}}
}

// with returns the value for the labels and creates it on the first call.
func (t *timed) with(labels ...string) *timedValue {
	key := ""
	for _, l := range labels {
		key += strconv.Quote(l)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.values[key]
	if v == nil {
		v = &timedValue{of: t, labels: labels, by: 1, at: t.now(), counts: make([]uint64, len(t.buckets)+1)}
		t.values[key] = v
	}
	return v
}

// forget deletes the values whose last label is label.
func (t *timed) forget(label string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, v := range t.values {
		if v.labels[len(v.labels)-1] == label {
			delete(t.values, key)
		}
	}
}

// Describe is part of prometheus.Collector.
func (t *timed) Describe(ch chan<- *prometheus.Desc) { ch <- t.desc }

// Collect is part of prometheus.Collector.
func (t *timed) Collect(ch chan<- prometheus.Metric) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, v := range t.values {
		ch <- v.collect()
	}
}

// timedValue is one value of a timed histogram.
type timedValue struct {
	of     *timed
	labels []string

	mu     sync.Mutex
	at     time.Time
	value  float64  // guarded by mu, as all below
	by     float64  // the divisor of observations
	counts []uint64 // nanoseconds in each bucket
	sum    float64
}

func (v *timedValue) set(value float64) { v.setAt(v.of.now(), value) }

func (v *timedValue) setAt(now time.Time, value float64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.advance(now)
	v.value = value
}

func (v *timedValue) divideBy(by float64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.advance(v.of.now())
	v.by = by
}

func (v *timedValue) advance(now time.Time) {
	d := now.Sub(v.at)
	if d <= 0 {
		return
	}
	v.at = now
	ratio := v.value / v.by
	n := 0
	for n < len(v.of.buckets) && ratio > v.of.buckets[n] {
		n++
	}
	v.counts[n] += uint64(d)
	v.sum += ratio * float64(d)
}

func (v *timedValue) collect() prometheus.Metric {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.advance(v.of.now())
	upTo := map[float64]uint64{}
	var total uint64
	for n, c := range v.counts {
		total += c
		if n < len(v.of.buckets) {
			upTo[v.of.buckets[n]] = total
		}
	}
	return prometheus.MustNewConstHistogram(v.of.desc, total, v.sum, upTo, v.labels...)
}
