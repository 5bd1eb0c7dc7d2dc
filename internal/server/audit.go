package server

import (
	"fmt"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/audit"
	"github.com/kanzen-io/kanzen/internal/config"
	"github.com/kanzen-io/kanzen/internal/egress"
)

// auditor makes the auditor of requests, nil if auditing is off.
func (b *base) auditor() (*audit.Auditor, error) {
	if b.cfg.AuditPolicyFile == "" {
		return nil, nil
	}
	policy, err := audit.LoadPolicy(b.cfg.AuditPolicyFile, b.log)
	if err != nil {
		return nil, fmt.Errorf("--audit-policy-file: %w", err)
	}
	if b.cfg.AuditLog.Path == "" && b.cfg.AuditWebhookConfigFile == "" {
		b.log.Info("an audit policy without --audit-log-path or --audit-webhook-config-file keeps nothing")
		return nil, nil
	}
	metrics := audit.NewMetrics(b.metrics.Register)
	report := &audit.Reporter{Log: b.log, Metrics: metrics}
	var backends audit.Union
	if b.cfg.AuditLog.Path != "" {
		out, err := b.cfg.AuditLog.Open()
		if err != nil {
			return nil, fmt.Errorf("--audit-log-path: %w", err)
		}
		log, err := audit.NewLog(out, b.cfg.AuditLogFormat, clock.RealClock{}, report)
		if err != nil {
			return nil, err
		}
		backends = append(backends, b.deliver(log, b.cfg.AuditLogDelivery, false, report))
	}
	if file := b.cfg.AuditWebhookConfigFile; file != "" {
		hook, err := audit.NewWebhook(file, b.ground.Egress.Dial(egress.ControlPlane), b.cfg.AuditWebhookBackoff, b.ground.Clock, report)
		if err != nil {
			_ = backends.Close()
			return nil, fmt.Errorf("--audit-webhook-config-file: %w", err)
		}
		backends = append(backends, b.deliver(hook, b.cfg.AuditWebhookDelivery, true, report))
	}
	return &audit.Auditor{Policy: policy, Backend: backends, Clock: b.ground.Clock, Metrics: metrics}, nil
}

// deliver wraps a backend as its flags say: in batches or blocking, and
// truncated.
func (b *base) deliver(to audit.Backend, d config.AuditDelivery, parallel bool, report *audit.Reporter) audit.Backend {
	if d.Mode == "batch" {
		o := audit.BatchOptions{Buffer: d.Buffer, MaxSize: d.MaxSize, MaxWait: d.MaxWait, Parallel: parallel}
		if d.Throttle {
			o.QPS, o.Burst = float64(d.QPS), d.Burst
		}
		to = audit.NewBatch(to, o, b.ground.Clock, b.guard, report)
	} else {
		to = audit.Blocking{Backend: to, Strict: d.Mode == "blocking-strict"}
	}
	if d.Truncate {
		to = &audit.Truncated{Backend: to, MaxEvent: d.MaxEvent, MaxBatch: d.TruncateBatch, Report: report}
	}
	return to
}
