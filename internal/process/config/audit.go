package config

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// AuditDelivery configures how audit events are sent to one backend.
type AuditDelivery struct {
	Mode                    string // batch, blocking, blocking-strict
	Buffer, MaxSize         int    // events
	MaxWait                 time.Duration
	Throttle                bool
	QPS                     float32
	Burst                   int
	Truncate                bool
	TruncateBatch, MaxEvent int64  // bytes
	Version                 string // API version of the events: audit.k8s.io/v1
}

// auditDelivery returns kube-apiserver's defaults: a log is written at once, a webhook gets batches.
func auditDelivery(mode string) AuditDelivery {
	d := AuditDelivery{Mode: mode, Buffer: 10000, MaxSize: 1, QPS: 0, Burst: 0,
		TruncateBatch: 10 << 20, MaxEvent: 100 << 10, Version: auditv1.SchemeGroupVersion.String()}
	if mode == "batch" {
		d.MaxSize, d.MaxWait, d.Throttle, d.QPS, d.Burst = 400, 30*time.Second, true, 10, 15
	}
	return d
}

func (c *Config) addAuditFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.AuditPolicyFile, "audit-policy-file", c.AuditPolicyFile, "File of the audit policy: which requests are written down, and how much of them.")
	fs.StringVar(&c.AuditLog.Path, "audit-log-path", c.AuditLog.Path, "File that audit events are written to; '-' is the standard output.")
	fs.IntVar(&c.AuditLog.MaxAge, "audit-log-maxage", c.AuditLog.MaxAge, "Days to keep old audit log files; 0: for good.")
	fs.IntVar(&c.AuditLog.MaxBackups, "audit-log-maxbackup", c.AuditLog.MaxBackups, "How many old audit log files to keep; 0: all.")
	fs.IntVar(&c.AuditLog.MaxSize, "audit-log-maxsize", c.AuditLog.MaxSize, "Megabytes from which an audit log file is put aside; 0: never.")
	fs.BoolVar(&c.AuditLog.Compress, "audit-log-compress", c.AuditLog.Compress, "Compress old audit log files by gzip.")
	fs.StringVar(&c.AuditLogFormat, "audit-log-format", c.AuditLogFormat, "Format of the audit log: json, or legacy for a line of text.")
	c.AuditLogDelivery.addFlags(fs, "log")
	fs.StringVar(&c.AuditWebhookConfigFile, "audit-webhook-config-file", c.AuditWebhookConfigFile, "Kubeconfig of the server that audit events are posted to.")
	fs.DurationVar(&c.AuditWebhookBackoff, "audit-webhook-initial-backoff", c.AuditWebhookBackoff, "How long to wait before the second attempt to post audit events.")
	fs.DurationVar(&c.AuditWebhookBackoff, "audit-webhook-batch-initial-backoff", c.AuditWebhookBackoff, "Old name of --audit-webhook-initial-backoff.")
	c.AuditWebhookDelivery.addFlags(fs, "webhook")
}

func (d *AuditDelivery) addFlags(fs *pflag.FlagSet, to string) {
	name := func(what string) string { return "audit-" + to + "-" + what }
	fs.StringVar(&d.Mode, name("mode"), d.Mode, "How audit events are sent: batch, blocking (requests wait), blocking-strict (requests fail with it).")
	fs.IntVar(&d.Buffer, name("batch-buffer-size"), d.Buffer, "In batch mode, how many events may wait.")
	fs.IntVar(&d.MaxSize, name("batch-max-size"), d.MaxSize, "In batch mode, the most events of a batch.")
	fs.DurationVar(&d.MaxWait, name("batch-max-wait"), d.MaxWait, "In batch mode, how long a batch that is not full waits.")
	fs.BoolVar(&d.Throttle, name("batch-throttle-enable"), d.Throttle, "In batch mode, whether batches are throttled.")
	fs.Float32Var(&d.QPS, name("batch-throttle-qps"), d.QPS, "In batch mode, batches a second on average.")
	fs.IntVar(&d.Burst, name("batch-throttle-burst"), d.Burst, "In batch mode, batches at the same moment.")
	fs.BoolVar(&d.Truncate, name("truncate-enabled"), d.Truncate, "Whether events and batches that are too large are cut.")
	fs.Int64Var(&d.TruncateBatch, name("truncate-max-batch-size"), d.TruncateBatch, "Bytes of a batch from which it is split.")
	fs.Int64Var(&d.MaxEvent, name("truncate-max-event-size"), d.MaxEvent, "Bytes of an event from which it loses its request and response.")
	fs.StringVar(&d.Version, name("version"), d.Version, "Group and version of the events.")
}

func (c *Config) validateAudit(bad reporter) {
	if c.AuditLog.Path != "" {
		c.AuditLogDelivery.validate("log", bad)
		if c.AuditLogFormat != "json" && c.AuditLogFormat != "legacy" {
			bad("audit-log-format", "invalid audit log format %s, allowed formats are %q", c.AuditLogFormat, "legacy,json")
		}
	}
	if c.AuditWebhookConfigFile != "" {
		c.AuditWebhookDelivery.validate("webhook", bad)
	}
}

func (d *AuditDelivery) validate(to string, bad reporter) {
	modes := []string{"batch", "blocking", "blocking-strict"}
	positive := func(what string, ok bool, n any) {
		if !ok {
			bad("audit-"+to+"-"+what, "%v, must be a positive number", n)
		}
	}
	if !slices.Contains(modes, d.Mode) {
		bad("audit-"+to+"-mode", "invalid audit %s mode %s, allowed modes are %q", to, d.Mode, strings.Join(modes, ","))
	}
	if d.Mode == "batch" {
		positive("batch-buffer-size", d.Buffer > 0, d.Buffer)
		positive("batch-max-size", d.MaxSize > 0, d.MaxSize)
		if d.Throttle {
			positive("batch-throttle-qps", d.QPS > 0, d.QPS)
			positive("batch-throttle-burst", d.Burst > 0, d.Burst)
		}
	}
	positive("truncate-max-event-size", d.MaxEvent > 0, d.MaxEvent)
	if d.TruncateBatch < d.MaxEvent {
		bad("audit-"+to+"-truncate-max-batch-size", "%d, must be greater than --audit-%s-truncate-max-event-size (%d)", d.TruncateBatch, to, d.MaxEvent)
	}
	if d.Version != auditv1.SchemeGroupVersion.String() {
		bad("audit-"+to+"-version", "invalid group version, allowed versions are [%q]", auditv1.SchemeGroupVersion)
	}
}
