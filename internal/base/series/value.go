package series

import (
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// value is a number that several goroutines change.
type value struct {
	Of
	bits atomic.Uint64
}

func (v *value) load() float64 { return math.Float64frombits(v.bits.Load()) }

func (v *value) set(to float64) { v.bits.Store(math.Float64bits(to)) }

func (v *value) add(delta float64) {
	for {
		old := v.bits.Load()
		if v.bits.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+delta)) {
			return
		}
	}
}

func (v *value) labels() []*dto.LabelPair { return prometheus.MakeLabelPairs(v.desc, v.Values()) }

// Counter is a prometheus.Counter.
type Counter struct{ value }

// CounterVec is like a prometheus.CounterVec.
type CounterVec = Set[*Counter]

// NewCounterVec makes a counter with labels.
func NewCounterVec(o prometheus.CounterOpts, labels []string) *CounterVec {
	return NewSet(prometheus.Opts(o), labels, func(of Of) *Counter { return &Counter{value{Of: of}} })
}

// Inc adds one.
func (c *Counter) Inc() { c.add(1) }

// Add adds what is not negative; it panics if it is.
func (c *Counter) Add(delta float64) {
	if delta < 0 {
		panic(errors.New("counter cannot decrease in value"))
	}
	c.add(delta)
}

// Collect is part of prometheus.Collector.
func (c *Counter) Collect(ch chan<- prometheus.Metric) { ch <- c }

// Write is part of prometheus.Metric.
func (c *Counter) Write(out *dto.Metric) error {
	n := c.load()
	out.Label, out.Counter = c.labels(), &dto.Counter{Value: &n, CreatedTimestamp: timestamppb.New(c.Began())}
	return nil
}

// Gauge is a prometheus.Gauge.
type Gauge struct{ value }

// GaugeVec is like a prometheus.GaugeVec.
type GaugeVec = Set[*Gauge]

// NewGaugeVec makes a gauge with labels.
func NewGaugeVec(o prometheus.GaugeOpts, labels []string) *GaugeVec {
	return NewSet(prometheus.Opts(o), labels, func(of Of) *Gauge { return &Gauge{value{Of: of}} })
}

// Set sets the gauge.
func (g *Gauge) Set(to float64) { g.set(to) }

// Inc adds one.
func (g *Gauge) Inc() { g.add(1) }

// Dec subtracts one.
func (g *Gauge) Dec() { g.add(-1) }

// Add adds to the gauge.
func (g *Gauge) Add(delta float64) { g.add(delta) }

// Sub subtracts from the gauge.
func (g *Gauge) Sub(delta float64) { g.add(-delta) }

// SetToCurrentTime sets the gauge to the seconds since 1970.
func (g *Gauge) SetToCurrentTime() { g.set(float64(time.Now().UnixNano()) / 1e9) }

// Collect is part of prometheus.Collector.
func (g *Gauge) Collect(ch chan<- prometheus.Metric) { ch <- g }

// Write is part of prometheus.Metric.
func (g *Gauge) Write(out *dto.Metric) error {
	n := g.load()
	out.Label, out.Gauge = g.labels(), &dto.Gauge{Value: &n}
	return nil
}
