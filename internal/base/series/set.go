// Package series has the series of metrics with labels, small: a process may have thousands of control planes, each with
// hundreds of series that hardly ever change. A counter of the prometheus library takes 700 bytes in a CounterVec, and a summary from
// its first observation on 24 KB and more; here they take 150 bytes, as long as a summary has observed little. What is collected is the same.
package series

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

// Set are the series of one metric, by the values of its labels. It is a prometheus.Collector.
type Set[T prometheus.Metric] struct {
	desc   *prometheus.Desc
	labels []string
	create func(Of) T

	mu     sync.RWMutex
	series map[string]T // by the values of its labels, with a separator behind each; nil: none yet; guarded by mu
}

// Of is what a series is of.
type Of struct {
	desc   *prometheus.Desc
	values string // as in Set.series
	began  int64  // in nanoseconds since 1970
}

// separator is in no label's value, as these are in UTF-8.
const separator = "\xff"

// NewSet makes an empty set, whose series create makes.
func NewSet[T prometheus.Metric](o prometheus.Opts, labels []string, create func(Of) T) *Set[T] {
	name := prometheus.BuildFQName(o.Namespace, o.Subsystem, o.Name)
	return &Set[T]{desc: prometheus.NewDesc(name, o.Help, labels, o.ConstLabels), labels: labels, create: create}
}

// WithLabelValues returns the series with these values, in the order of the labels. Like that of the library, it panics if they
// are too few or too many, or not in UTF-8.
func (s *Set[T]) WithLabelValues(values ...string) T {
	var room [160]byte
	key := appendKey(room[:0], values)
	s.mu.RLock()
	found, ok := s.series[string(key)]
	s.mu.RUnlock()
	if ok {
		return found
	}
	if err := s.check(values); err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if found, ok = s.series[string(key)]; !ok {
		of := Of{s.desc, string(key), time.Now().UnixNano()}
		found = s.create(of)
		if s.series == nil {
			s.series = map[string]T{}
		}
		s.series[of.values] = found
	}
	return found
}

func appendKey(key []byte, values []string) []byte {
	for _, value := range values {
		key = append(append(key, value...), separator...)
	}
	return key
}

func (s *Set[T]) check(values []string) error {
	if len(values) != len(s.labels) {
		return fmt.Errorf("%s: %d values of labels, want %d", s.desc, len(values), len(s.labels))
	}
	for n, value := range values {
		if !utf8.ValidString(value) {
			return fmt.Errorf("%s: the value %q of the label %s is not in UTF-8", s.desc, value, s.labels[n])
		}
	}
	return nil
}

// Reset deletes all series.
func (s *Set[T]) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.series)
}

// DeleteLabelValues deletes the series with these values, in the order of the labels, and reports whether there was one.
func (s *Set[T]) DeleteLabelValues(values ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.series)
	delete(s.series, string(appendKey(nil, values)))
	return len(s.series) < before
}

// DeletePartialMatch deletes the series with some labels, and returns how many there were.
func (s *Set[T]) DeletePartialMatch(labels prometheus.Labels) int {
	for name := range labels {
		if !slices.Contains(s.labels, name) {
			return 0
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.series)
	maps.DeleteFunc(s.series, func(key string, _ T) bool {
		for n, value := range split(key) {
			if want, ok := labels[s.labels[n]]; ok && want != value {
				return false
			}
		}
		return true
	})
	return before - len(s.series)
}

// Describe is part of prometheus.Collector.
func (s *Set[T]) Describe(ch chan<- *prometheus.Desc) { ch <- s.desc }

// Collect is part of prometheus.Collector.
func (s *Set[T]) Collect(ch chan<- prometheus.Metric) {
	s.mu.RLock()
	all := slices.Collect(maps.Values(s.series))
	s.mu.RUnlock()
	for _, m := range all {
		ch <- m
	}
}

// Desc is part of prometheus.Metric.
func (o *Of) Desc() *prometheus.Desc { return o.desc }

// Describe is part of prometheus.Collector.
func (o *Of) Describe(ch chan<- *prometheus.Desc) { ch <- o.desc }

// Began is when the series was made.
func (o *Of) Began() time.Time { return time.Unix(0, o.began) }

// Values are those of the labels.
func (o *Of) Values() []string { return split(o.values) }

func split(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(key, separator), separator)
}
