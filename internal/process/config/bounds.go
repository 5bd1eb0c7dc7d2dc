package config

import (
	"math"
	"time"
)

// bound is a number that a setting may not go beyond. Where a greater one would be taken, it would overflow when it becomes
// a duration or a number of bytes, or be more memory than there is.
type bound struct {
	flag        string
	value       int64
	least, most int64
}

const (
	hundredYears = 100 * 365 * 24 * time.Hour
	// buffered bounds buffers that are made as large as they are said to be.
	buffered = 10_000_000
)

func (c *Config) bounds() []bound {
	out := []bound{
		{"min-request-timeout", int64(c.MinRequestTimeout), 0, int64(hundredYears / time.Second)},
		{"max-requests-inflight", int64(c.MaxReadOnlyInFlight), 0, math.MaxInt32},
		{"max-mutating-requests-inflight", int64(c.MaxMutatingInFlight), 0, math.MaxInt32},
		{"planes-awake", int64(c.PlanesAwake), 0, math.MaxInt32},
		{"max-request-body-bytes", int64(c.MaxRequestBodyBytes), minObjectBytes, maxObjectBytes},
		{"http2-max-streams-per-connection", int64(c.HTTP2MaxStreams), 0, math.MaxInt32},
	}
	for flag, d := range map[string]time.Duration{
		"etcd-compaction-interval": c.EtcdCompactionInterval, "etcd-count-metric-poll-period": c.EtcdCountMetricPoll,
		"etcd-db-metric-poll-interval": c.EtcdSizeMetricPoll, "event-ttl": c.EventTTL, "livez-grace-period": c.LivezGrace,
		"shutdown-delay-duration": c.ShutdownDelay, "shutdown-watch-termination-grace-period": c.WatchTermination,
		"planes-idle": c.PlanesIdle,
	} {
		out = append(out, bound{flag, int64(d), 0, math.MaxInt64})
	}
	if c.AuditLog.Path != "" {
		out = append(out, c.AuditLogDelivery.bounds("audit-log-")...)
		out = append(out, bound{"audit-log-maxage", int64(c.AuditLog.MaxAge), 0, int64(hundredYears / (24 * time.Hour))},
			bound{"audit-log-maxbackup", int64(c.AuditLog.MaxBackups), 0, math.MaxInt32},
			bound{"audit-log-maxsize", int64(c.AuditLog.MaxSize), 0, math.MaxInt32}) // megabytes
	}
	if c.AuditWebhookConfigFile != "" {
		out = append(out, c.AuditWebhookDelivery.bounds("audit-webhook-")...)
	}
	return out
}

func (d *AuditDelivery) bounds(prefix string) []bound {
	if d.Mode != "batch" {
		return nil
	}
	return []bound{{prefix + "batch-buffer-size", int64(d.Buffer), math.MinInt64, buffered}, {prefix + "batch-max-size", int64(d.MaxSize), math.MinInt64, buffered}}
}

func (c *Config) validateBounds(bad reporter) {
	for _, b := range c.bounds() {
		switch {
		case b.value < b.least:
			bad(b.flag, "must not be negative")
		case b.value > b.most:
			bad(b.flag, "%d is too much; %d is the most", b.value, b.most)
		}
	}
}
