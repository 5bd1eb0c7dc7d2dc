package podsecurity

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/pod-security-admission/api"

	"github.com/kanzen-io/kanzen/internal/base/series"
	"github.com/kanzen-io/kanzen/internal/base/version"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// metrics count decisions and exemptions, under kube-apiserver's names.
type metrics struct {
	evaluations, exemptions, errors *series.CounterVec
	newest                          api.Version // of the API that is served
}

// newMetrics makes the metrics and registers them, if r is not nil.
func newMetrics(r prometheus.Registerer) *metrics {
	where := []string{"request_operation", "resource", "subresource"}
	v := version.Info()
	newest, _ := api.ParseVersion("v" + v.Major + "." + v.Minor) // never fails for a version of Kubernetes
	m := &metrics{
		newest: newest,
		evaluations: series.NewCounterVec(prometheus.CounterOpts{Name: "pod_security_evaluations_total", Help: "Evaluations of policies."},
			append([]string{"decision", "policy_level", "policy_version", "mode"}, where...)),
		exemptions: series.NewCounterVec(prometheus.CounterOpts{Name: "pod_security_exemptions_total", Help: "Writes that are exempt."}, where),
		errors: series.NewCounterVec(prometheus.CounterOpts{Name: "pod_security_errors_total", Help: "Policies that could not be read."},
			append([]string{"fatal"}, where...)),
	}
	for _, operation := range []string{"create", "update"} { // kube-apiserver shows these before they count
		for _, resource := range []string{"pod", "controller"} {
			m.exemptions.WithLabelValues(operation, resource, "")
		}
	}
	if r != nil {
		r.MustRegister(m.evaluations, m.exemptions, m.errors)
	}
	return m
}

// whereOf returns the labels of a write.
func whereOf(a *admission.Attributes) []string {
	resource := "controller"
	switch a.Resource.GroupResource() {
	case admission.Pods:
		resource = "pod"
	case admission.Namespaces:
		resource = "namespace"
	}
	return []string{strings.ToLower(string(a.Operation)), resource, a.Subresource}
}

// evaluated counts the decision about a write by a policy of a namespace in a mode.
func (m *metrics) evaluated(a *admission.Attributes, lv api.LevelVersion, mode string, allowed bool) {
	since, decision := lv.Version.String(), "deny"
	switch {
	case lv.Version.Latest(), lv.Level == api.LevelPrivileged:
		since = "latest"
	case m.newest.Older(lv.Version):
		since = "future"
	}
	if allowed {
		decision = "allow"
	}
	m.evaluations.WithLabelValues(append([]string{decision, string(lv.Level), since, mode}, whereOf(a)...)...).Inc()
}

func (m *metrics) exempted(a *admission.Attributes) {
	m.exemptions.WithLabelValues(whereOf(a)...).Inc()
}

func (m *metrics) unreadable(a *admission.Attributes) {
	m.errors.WithLabelValues(append([]string{"false"}, whereOf(a)...)...).Inc()
}
