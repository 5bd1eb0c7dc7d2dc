package process

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/audit"
	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/wire/egress"
)

// Auditor makes the auditor of requests, nil if auditing is off. What it opens is added to closers.
func (p *Process) Auditor(register func(...prometheus.Collector), g *guard.Guard, closers *Closers) (*audit.Auditor, error) {
	root := p.Root
	metrics := audit.NewMetrics(register) // also where there is no log: dashboards ask for them
	policy, err := p.auditPolicy()
	if policy == nil || err != nil {
		return nil, err
	}
	if root.AuditLog.Path == "" && root.AuditWebhookConfigFile == "" {
		p.Log.Info("an audit policy without --audit-log-path or --audit-webhook-config-file keeps nothing")
		return nil, nil
	}
	report := &audit.Reporter{Log: p.Log, Metrics: metrics}
	var backends audit.Union
	if root.AuditLog.Path != "" {
		out, err := root.AuditLog.Open()
		if err != nil {
			return nil, fmt.Errorf("--audit-log-path: %w", err)
		}
		log, err := audit.NewLog(out, root.AuditLogFormat, clock.RealClock{}, report)
		if err != nil {
			return nil, err
		}
		backends = append(backends, p.deliver(log, root.AuditLogDelivery, audit.BatchOptions{}, g, report))
	}
	if file := root.AuditWebhookConfigFile; file != "" {
		hook, err := audit.NewWebhook(file, p.Egress.Dial(egress.ControlPlane), root.AuditWebhookBackoff, p.Clock, report)
		if err != nil {
			_ = backends.Close()
			return nil, fmt.Errorf("--audit-webhook-config-file: %w", err)
		}
		backends = append(backends, p.deliver(hook, root.AuditWebhookDelivery, audit.BatchOptions{Parallel: true, Grace: webhookGrace}, g, report))
	}
	closers.Add(backends.Close) // no request is served any more by then; buffered events are written
	return &audit.Auditor{Policy: policy, Backend: backends, Clock: p.Clock, Metrics: metrics}, nil
}

// auditPolicy returns the policy of the file. Without one, `kanzen serve` records who did what to which object (Metadata) if
// there is a backend, and kube-apiserver nothing.
func (p *Process) auditPolicy() (*audit.Policy, error) {
	root := p.Root
	switch {
	case root.AuditPolicyFile != "":
		policy, err := audit.LoadPolicy(root.AuditPolicyFile, p.Log)
		if err != nil {
			return nil, fmt.Errorf("--audit-policy-file: %w", err)
		}
		return policy, nil
	case root.AuditLog.Path == "" && root.AuditWebhookConfigFile == "":
		return nil, nil
	case root.DataDir != "":
		return audit.MetadataPolicy(), nil
	}
	if root.AuditLog.Path != "" {
		p.Log.Warn("No audit policy file provided, no events will be recorded for log backend") // its words
	}
	if root.AuditWebhookConfigFile != "" {
		p.Log.Warn("No audit policy file provided, no events will be recorded for webhook backend")
	}
	return nil, nil
}

// webhookGrace is how long a stopping server waits for its audit webhook. It is less than the 30 seconds that a kubelet gives a
// pod to end, as the datastore is closed after it.
const webhookGrace = 15 * time.Second

// deliver wraps a backend as its flags say: in batches, of which o says how they are passed on, or blocking, and
// truncated.
func (p *Process) deliver(to audit.Backend, d config.AuditDelivery, o audit.BatchOptions, g *guard.Guard, report *audit.Reporter) audit.Backend {
	if d.Mode == "batch" {
		o.Buffer, o.MaxSize, o.MaxWait = d.Buffer, d.MaxSize, d.MaxWait
		if d.Throttle {
			o.QPS, o.Burst = float64(d.QPS), d.Burst
		}
		to = audit.NewBatch(to, o, p.Clock, g, report)
	} else {
		to = audit.Blocking{Backend: to, Strict: d.Mode == "blocking-strict"}
	}
	if d.Truncate {
		to = &audit.Truncated{Backend: to, MaxEvent: d.MaxEvent, MaxBatch: d.TruncateBatch, Report: report}
	}
	return to
}
