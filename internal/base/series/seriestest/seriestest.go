// Package seriestest compares metrics with those of the prometheus library.
package seriestest

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Pair are two registries that are to gather the same.
type Pair struct {
	Got, Want *prometheus.Registry
	beginning time.Time
}

// New makes two empty registries.
func New() Pair {
	return Pair{prometheus.NewPedanticRegistry(), prometheus.NewPedanticRegistry(), time.Now()}
}

// Same fails the test if the registries do not gather the same, but for the times of creation, which must be within the test.
func (p Pair) Same(t *testing.T) {
	t.Helper()
	got, want := p.gather(t, p.Got), p.gather(t, p.Want)
	if len(got) != len(want) {
		t.Fatalf("%d families, want %d", len(got), len(want))
	}
	for n := range got {
		if !proto.Equal(got[n], want[n]) {
			t.Fatalf("got  %v\nwant %v", got[n], want[n])
		}
	}
}

func (p Pair) gather(t *testing.T, r *prometheus.Registry) []*dto.MetricFamily {
	t.Helper()
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		for _, m := range f.Metric {
			if c := m.Counter; c != nil {
				p.forget(t, m, &c.CreatedTimestamp)
			}
			if s := m.Summary; s != nil {
				p.forget(t, m, &s.CreatedTimestamp)
			}
			if h := m.Histogram; h != nil {
				p.forget(t, m, &h.CreatedTimestamp)
			}
		}
	}
	return all
}

// forget takes the time of its creation from a metric.
func (p Pair) forget(t *testing.T, m *dto.Metric, created **timestamppb.Timestamp) {
	t.Helper()
	if at := (*created).AsTime(); at.Before(p.beginning) || at.After(time.Now()) {
		t.Errorf("%v was created at %s", m.Label, at)
	}
	*created = nil
}
