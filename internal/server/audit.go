package server

import (
	"fmt"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/audit"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/wire/egress"
)

// auditor makes the auditor of requests, nil if auditing is off.
func (b *base) auditor() (*audit.Auditor, error) {
	switch o := b.seams.origin; {
	case o != nil:
		return o.auditor(), nil
	case b.seams.Auditor != nil:
		return b.seams.Auditor(), nil
	}
	metrics := audit.NewMetrics(b.metrics.Register) // also where there is no log: dashboards ask for them
	policy, err := b.auditPolicy()
	if policy == nil || err != nil {
		return nil, err
	}
	if b.root.AuditLog.Path == "" && b.root.AuditWebhookConfigFile == "" {
		b.log.Info("an audit policy without --audit-log-path or --audit-webhook-config-file keeps nothing")
		return nil, nil
	}
	report := &audit.Reporter{Log: b.log, Metrics: metrics}
	var backends audit.Union
	if b.root.AuditLog.Path != "" {
		out, err := b.root.AuditLog.Open()
		if err != nil {
			return nil, fmt.Errorf("--audit-log-path: %w", err)
		}
		log, err := audit.NewLog(out, b.root.AuditLogFormat, clock.RealClock{}, report)
		if err != nil {
			return nil, err
		}
		backends = append(backends, b.deliver(log, b.root.AuditLogDelivery, audit.BatchOptions{}, report))
	}
	if file := b.root.AuditWebhookConfigFile; file != "" {
		hook, err := audit.NewWebhook(file, b.process.Egress.Dial(egress.ControlPlane), b.root.AuditWebhookBackoff, b.process.Clock, report)
		if err != nil {
			_ = backends.Close()
			return nil, fmt.Errorf("--audit-webhook-config-file: %w", err)
		}
		backends = append(backends, b.deliver(hook, b.root.AuditWebhookDelivery, audit.BatchOptions{Parallel: true, Grace: webhookGrace}, report))
	}
	b.opened.Add(backends.Close) // no request is served any more by then; buffered events are written
	return &audit.Auditor{Policy: policy, Backend: backends, Clock: b.process.Clock, Metrics: metrics}, nil
}

// auditPolicy returns the policy of the file. Without one, `kanzen serve` records who did what to which object (Metadata) if
// there is a backend, and kube-apiserver nothing.
func (b *base) auditPolicy() (*audit.Policy, error) {
	root := b.root
	switch {
	case root.AuditPolicyFile != "":
		p, err := audit.LoadPolicy(root.AuditPolicyFile, b.log)
		if err != nil {
			return nil, fmt.Errorf("--audit-policy-file: %w", err)
		}
		return p, nil
	case root.AuditLog.Path == "" && root.AuditWebhookConfigFile == "":
		return nil, nil
	case root.DataDir != "":
		return audit.MetadataPolicy(), nil
	}
	if root.AuditLog.Path != "" {
		b.log.Warn("No audit policy file provided, no events will be recorded for log backend") // its words
	}
	if root.AuditWebhookConfigFile != "" {
		b.log.Warn("No audit policy file provided, no events will be recorded for webhook backend")
	}
	return nil, nil
}

// webhookGrace is how long a stopping server waits for its audit webhook. It is less than the 30 seconds that a kubelet gives a
// pod to end, as the datastore is closed after it.
const webhookGrace = 15 * time.Second

// deliver wraps a backend as its flags say: in batches, of which o says how they are passed on, or blocking, and
// truncated.
func (b *base) deliver(to audit.Backend, d config.AuditDelivery, o audit.BatchOptions, report *audit.Reporter) audit.Backend {
	if d.Mode == "batch" {
		o.Buffer, o.MaxSize, o.MaxWait = d.Buffer, d.MaxSize, d.MaxWait
		if d.Throttle {
			o.QPS, o.Burst = float64(d.QPS), d.Burst
		}
		to = audit.NewBatch(to, o, b.process.Clock, b.guard, report)
	} else {
		to = audit.Blocking{Backend: to, Strict: d.Mode == "blocking-strict"}
	}
	if d.Truncate {
		to = &audit.Truncated{Backend: to, MaxEvent: d.MaxEvent, MaxBatch: d.TruncateBatch, Report: report}
	}
	return to
}
