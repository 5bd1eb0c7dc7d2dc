package server

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/audit"
	"github.com/kanzen-io/kanzen/internal/config"
	"github.com/kanzen-io/kanzen/internal/egress"
)

// auditor makes what audits requests, nil where nothing is to be kept.
func (s *Server) auditor(register func(...prometheus.Collector)) (*audit.Auditor, error) {
	if s.cfg.AuditPolicyFile == "" {
		return nil, nil
	}
	policy, err := audit.LoadPolicy(s.cfg.AuditPolicyFile, s.log)
	if err != nil {
		return nil, fmt.Errorf("--audit-policy-file: %w", err)
	}
	if s.cfg.AuditLog.Path == "" && s.cfg.AuditWebhookConfigFile == "" {
		s.log.Info("an audit policy without --audit-log-path or --audit-webhook-config-file keeps nothing")
		return nil, nil
	}
	metrics := audit.NewMetrics(register)
	report := &audit.Reporter{Log: s.log, Metrics: metrics}
	var backends audit.Union
	if s.cfg.AuditLog.Path != "" {
		out, err := s.cfg.AuditLog.Open()
		if err != nil {
			return nil, fmt.Errorf("--audit-log-path: %w", err)
		}
		log, err := audit.NewLog(out, s.cfg.AuditLogFormat, clock.RealClock{}, report)
		if err != nil {
			return nil, err
		}
		backends = append(backends, s.deliver(log, s.cfg.AuditLogDelivery, false, report))
	}
	if file := s.cfg.AuditWebhookConfigFile; file != "" {
		hook, err := audit.NewWebhook(file, s.egress.Dial(egress.ControlPlane), s.cfg.AuditWebhookBackoff, s.clock, report)
		if err != nil {
			_ = backends.Close()
			return nil, fmt.Errorf("--audit-webhook-config-file: %w", err)
		}
		backends = append(backends, s.deliver(hook, s.cfg.AuditWebhookDelivery, true, report))
	}
	return &audit.Auditor{Policy: policy, Backend: backends, Clock: s.clock, Metrics: metrics}, nil
}

// deliver puts in front of a backend what its flags ask for.
func (s *Server) deliver(b audit.Backend, d config.AuditDelivery, parallel bool, report *audit.Reporter) audit.Backend {
	if d.Mode == "batch" {
		o := audit.BatchOptions{Buffer: d.Buffer, MaxSize: d.MaxSize, MaxWait: d.MaxWait, Parallel: parallel}
		if d.Throttle {
			o.QPS, o.Burst = float64(d.QPS), d.Burst
		}
		b = audit.NewBatch(b, o, s.clock, s.guard, report)
	} else {
		b = audit.Blocking{Backend: b, Strict: d.Mode == "blocking-strict"}
	}
	if d.Truncate {
		b = &audit.Truncated{Backend: b, MaxEvent: d.MaxEvent, MaxBatch: d.TruncateBatch, Report: report}
	}
	return b
}
