// Package reload applies configuration files again when they change.
package reload

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/series"
)

// lookEvery is how often configuration files are read to detect changes.
const lookEvery = 3 * time.Second

// File applies a configuration file again when its content changes. If the new content is invalid, this is logged and
// the old one stays in use.
type File struct {
	Path string
	// Content reads what is applied. Nil: it is what is in the file.
	Content func() ([]byte, error)
	// Take applies the content.
	Take    func(ctx context.Context, data []byte) error
	Metrics *Metrics
	Clock   clock.WithTicker
	Log     *slog.Logger
	last    []byte
}

// Passing is a temporary error of Take that is not the file's fault: Take is called again.
type Passing struct{ error }

// NewPassing marks an error as Passing.
func NewPassing(err error) Passing { return Passing{err} }

// Read returns the content at the start.
func (r *File) Read() ([]byte, error) {
	data, err := r.content()
	if err != nil {
		return nil, err
	}
	r.last = data
	r.Metrics.inForce(data)
	return data, nil
}

func (r *File) content() ([]byte, error) {
	if r.Content != nil {
		return r.Content()
	}
	return os.ReadFile(r.Path)
}

// Run checks the file until ctx ends.
func (r *File) Run(ctx context.Context) {
	t := r.Clock.NewTicker(lookEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C():
			r.look(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (r *File) look(ctx context.Context) {
	data, err := r.content()
	if err == nil {
		if bytes.Equal(data, r.last) {
			return
		}
		if err = r.Take(ctx, data); !errors.As(err, new(Passing)) {
			r.last = data
		}
	}
	if err != nil {
		r.Log.Error("a configuration file changed, but cannot be used; what was configured before stays", "file", r.Path, "error", err)
		r.Metrics.tried(r.Clock.Now(), "failure")
		return
	}
	r.Log.Info("took up a changed configuration file", "file", r.Path)
	r.Metrics.tried(r.Clock.Now(), "success")
	r.Metrics.inForce(data)
}

// Metrics measure reloads of one kind of file, and identify the content in use. Server and content are identified by
// hashes.
type Metrics struct {
	server  string
	total   *series.CounterVec
	last    *series.GaugeVec
	info    *prometheus.Desc
	content atomic.Pointer[string]
}

// NewMetrics registers the metrics of the files of a kind, such as "authorization" or "authentication".
func NewMetrics(r prometheus.Registerer, kind, server string) *Metrics {
	name := func(s string) string { return "apiserver_" + kind + "_config_controller_" + s }
	m := &Metrics{
		server: hashOf([]byte(server)),
		total: series.NewCounterVec(prometheus.CounterOpts{
			Name: name("automatic_reloads_total"),
			Help: "Total number of automatic reloads of " + kind + " configuration split by status and apiserver identity.",
		}, []string{"status", "apiserver_id_hash"}),
		last: series.NewGaugeVec(prometheus.GaugeOpts{
			Name: name("automatic_reload_last_timestamp_seconds"),
			Help: "Timestamp of the last automatic reload of " + kind + " configuration split by status and apiserver identity.",
		}, []string{"status", "apiserver_id_hash"}),
		info: prometheus.NewDesc(name("last_config_info"),
			"Information about the last applied "+kind+" configuration with hash as label, split by apiserver identity.",
			[]string{"apiserver_id_hash", "hash"}, nil),
	}
	r.MustRegister(m.total, m.last, m)
	return m
}

func hashOf(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

// Loaded counts what was read at the start as a reload, for kinds of which kube-apiserver does.
func (m *Metrics) Loaded(now time.Time) { m.tried(now, "success") }

func (m *Metrics) tried(now time.Time, status string) {
	m.total.WithLabelValues(status, m.server).Inc()
	m.last.WithLabelValues(status, m.server).Set(float64(now.UnixNano()) / 1e9)
}

func (m *Metrics) inForce(data []byte) {
	h := ""
	if len(data) > 0 {
		h = hashOf(data)
	}
	m.content.Store(&h)
}

// Describe is part of prometheus.Collector.
func (m *Metrics) Describe(c chan<- *prometheus.Desc) { c <- m.info }

// Collect is part of prometheus.Collector.
func (m *Metrics) Collect(c chan<- prometheus.Metric) {
	if h := m.content.Load(); h != nil {
		c <- prometheus.MustNewConstMetric(m.info, prometheus.GaugeValue, 1, m.server, *h)
	}
}
