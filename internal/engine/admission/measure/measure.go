// Package measure has the metrics of admission, under kube-apiserver's names.
package measure

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
	"github.com/kanzen-io/kanzen/internal/base/series"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// Phase is a part of admission, as it is spelled in labels.
type Phase string

// The phases. Validating webhooks have their own spelling.
const (
	Admit      Phase = "admit"
	Validate   Phase = "validate"
	Validating Phase = "validating"
)

// Metrics are the admission metrics of one server.
type Metrics struct {
	steps, plugins, webhooks           *histogram.Vec
	stepSummary                        *series.SummaryVec
	rejections, failOpen, requests     *series.CounterVec
	conditionErrors, exclusions        *series.CounterVec
	conditionSeconds                   *histogram.Vec
	validatingChecks, mutatingChecks   *series.CounterVec
	validatingSeconds, mutatingSeconds *histogram.Vec
}

// New makes the metrics of a server.
func New() *Metrics {
	short := []float64{0.005, 0.025, 0.1, 0.5, 1.0, 2.5}
	expression := []float64{0.0000005, 0.001, 0.01, 0.1, 1.0}
	histogram := func(name, help string, buckets []float64, labels ...string) *histogram.Vec {
		return histogram.NewVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	counter := func(name, help string, labels ...string) *series.CounterVec {
		return series.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	return &Metrics{
		steps: histogram("apiserver_admission_step_admission_duration_seconds",
			"How long all mutating or all validating plugins took.", short, "type", "operation", "rejected"),
		stepSummary: series.NewSummaryVec(prometheus.SummaryOpts{Name: "apiserver_admission_step_admission_duration_seconds_summary",
			Help: "How long all mutating or all validating plugins took, in total.", MaxAge: 5 * time.Hour, AgeBuckets: 2, BufCap: 50, // each has buffers of 12 KB
			Objectives: map[float64]float64{0.5: 0.05, 0.9: 0.01, 0.99: 0.001}}, []string{"type", "operation", "rejected"}),
		plugins: histogram("apiserver_admission_controller_admission_duration_seconds",
			"How long a plugin took.", short, "name", "type", "operation", "rejected"),
		webhooks: histogram("apiserver_admission_webhook_admission_duration_seconds",
			"How long a webhook took.", []float64{0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10, 25}, "name", "type", "operation", "rejected"),
		rejections: counter("apiserver_admission_webhook_rejection_count",
			"Writes that a webhook, or the failure to ask it, refused.", "name", "type", "operation", "error_type", "rejection_code"),
		failOpen: counter("apiserver_admission_webhook_fail_open_count",
			"Failures to ask a webhook that did not count.", "name", "type"),
		requests: counter("apiserver_admission_webhook_request_total",
			"Requests to webhooks.", "name", "type", "operation", "code", "rejected"),
		conditionErrors: counter("apiserver_admission_match_condition_evaluation_errors_total",
			"Errors of match conditions.", "name", "kind", "type", "operation"),
		exclusions: counter("apiserver_admission_match_condition_exclusions_total",
			"Writes that match conditions ruled out.", "name", "kind", "type", "operation"),
		conditionSeconds: histogram("apiserver_admission_match_condition_evaluation_seconds",
			"How long match conditions took.", []float64{0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25}, "name", "kind", "type", "operation"),
		validatingChecks: counter("apiserver_validating_admission_policy_check_total",
			"Validations of policies.", "policy", "policy_binding", "error_type", "enforcement_action"),
		validatingSeconds: histogram("apiserver_validating_admission_policy_check_duration_seconds",
			"How long validations of policies took.", expression, "policy", "policy_binding", "error_type", "enforcement_action"),
		mutatingChecks: counter("apiserver_mutating_admission_policy_check_total",
			"Mutations of policies.", "policy", "policy_binding", "error_type"),
		mutatingSeconds: histogram("apiserver_mutating_admission_policy_check_duration_seconds",
			"How long mutations of policies took.", expression, "policy", "policy_binding", "error_type"),
	}
}

// Collectors returns all metrics, for a registry.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.steps, m.stepSummary, m.plugins, m.webhooks, m.rejections, m.failOpen, m.requests,
		m.conditionErrors, m.exclusions, m.conditionSeconds, m.validatingChecks, m.validatingSeconds, m.mutatingChecks, m.mutatingSeconds}
}

// Step measures a phase of a write.
func (m *Metrics) Step(p Phase, op admission.Operation, rejected bool, took time.Duration) {
	r := strconv.FormatBool(rejected)
	m.steps.WithLabelValues(string(p), string(op), r).Observe(took.Seconds())
	m.stepSummary.WithLabelValues(string(p), string(op), r).Observe(took.Seconds())
}

// Webhook measures a call of a webhook that was answered with a code.
func (m *Metrics) Webhook(name string, p Phase, op admission.Operation, rejected bool, code int, took time.Duration) {
	r := strconv.FormatBool(rejected)
	m.requests.WithLabelValues(name, string(p), string(op), codeLabel(code), r).Inc()
	m.webhooks.WithLabelValues(name, string(p), string(op), r).Observe(took.Seconds())
}

// Causes of a webhook's rejections.
const (
	CallingError  = "calling_webhook_error"
	InternalError = "apiserver_internal_error"
	NoError       = "no_error"
)

// Rejection counts a write that was refused because of a webhook.
func (m *Metrics) Rejection(name string, p Phase, op admission.Operation, cause string, code int) {
	m.rejections.WithLabelValues(name, string(p), string(op), cause, codeLabel(code)).Inc()
}

// FailOpen counts a failed call of a webhook that was ignored.
func (m *Metrics) FailOpen(name string, p Phase) { m.failOpen.WithLabelValues(name, string(p)).Inc() }

// codeLabel bounds the number of labels that the codes of webhooks may make.
func codeLabel(code int) string { return strconv.Itoa(min(code, 600)) }

// Conditions are the metrics of the match conditions of one webhook or policy.
type Conditions struct {
	m                *Metrics
	name, kind, step string
}

// ConditionsOf returns the metrics of the match conditions of a webhook (kind
// "webhook") or policy ("policy").
func (m *Metrics) ConditionsOf(name, kind string, p Phase) Conditions {
	return Conditions{m, name, kind, string(p)}
}

// Evaluated measures one evaluation of all conditions, some of them with errors.
func (c Conditions) Evaluated(op admission.Operation, errors int, took time.Duration) {
	c.m.conditionSeconds.WithLabelValues(c.name, c.kind, c.step, string(op)).Observe(took.Seconds())
	if errors > 0 {
		c.m.conditionErrors.WithLabelValues(c.name, c.kind, c.step, string(op)).Add(float64(errors))
	}
}

// Excluded counts a write that does not meet the conditions.
func (c Conditions) Excluded(op admission.Operation) {
	c.m.exclusions.WithLabelValues(c.name, c.kind, c.step, string(op)).Inc()
}

// Validation measures a validation of a policy. Its action is allow, deny,
// audit or warn.
func (m *Metrics) Validation(policy, binding, errorType, action string, took time.Duration) {
	m.validatingChecks.WithLabelValues(policy, binding, errorType, action).Inc()
	m.validatingSeconds.WithLabelValues(policy, binding, errorType, action).Observe(took.Seconds())
}

// Mutation measures a mutation of a policy.
func (m *Metrics) Mutation(policy, binding, errorType string, took time.Duration) {
	m.mutatingChecks.WithLabelValues(policy, binding, errorType).Inc()
	m.mutatingSeconds.WithLabelValues(policy, binding, errorType).Observe(took.Seconds())
}
