package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kanzen-io/kanzen/internal/builtin/admissionregistration"
	"github.com/kanzen-io/kanzen/internal/recorder/v1alpha1"
)

// This file has the doctor's examinations of what is stored.

// Bounds from which etcd is complained of.
const (
	slowEtcd  = 0.1     // seconds of a request, on average
	largeEtcd = 6 << 30 // bytes; the usual quota is 8 GiB
)

func (d *doctor) etcd(ctx context.Context) error {
	text, err := d.text(ctx, "/metrics")
	if err != nil {
		return err
	}
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return err
	}
	var size, seconds, count float64
	for _, m := range families["apiserver_storage_size_bytes"].GetMetric() {
		size += m.GetGauge().GetValue()
	}
	for _, m := range families["etcd_request_duration_seconds"].GetMetric() {
		seconds += m.GetHistogram().GetSampleSum()
		count += float64(m.GetHistogram().GetSampleCount())
	}
	if size > largeEtcd {
		d.say(worrying, "etcd", "find what fills it (apiserver_resource_size_estimate_bytes by resource), delete that and defragment", "its database has %.1f GiB", size/(1<<30))
	}
	if count > 0 && seconds/count > slowEtcd {
		d.say(worrying, "etcd", "give etcd a disk of its own, with fast fsync", "requests to etcd take %.0f ms on average", 1000*seconds/count)
	}
	for _, m := range families["kanzen_admission_webhook_breaker_open"].GetMetric() {
		d.say(bad, "webhooks", "repair its service, or delete its configuration", "webhook %s has failed for so long that writes no longer wait for it", label(m, "name"))
	}
	return nil
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

func (d *doctor) webhooks(ctx context.Context) error {
	const of = "/apis/admissionregistration.k8s.io/v1/"
	var mutating admissionv1.MutatingWebhookConfigurationList
	var validating admissionv1.ValidatingWebhookConfigurationList
	if err := errors.Join(d.get(ctx, of+"mutatingwebhookconfigurations", &mutating), d.get(ctx, of+"validatingwebhookconfigurations", &validating)); err != nil {
		return err
	}
	advise := func(configuration string, advice []string) {
		for _, text := range advice {
			d.say(worrying, "webhooks", "", "%s: %s", configuration, text)
		}
	}
	for n := range mutating.Items {
		c := &mutating.Items[n]
		advise(c.Name, admissionregistration.AdviseMutating(c))
		for _, w := range c.Webhooks {
			d.webhook(ctx, c.Name, w.Name, &w.ClientConfig, w.FailurePolicy)
		}
	}
	for n := range validating.Items {
		c := &validating.Items[n]
		advise(c.Name, admissionregistration.AdviseValidating(c))
		for _, w := range c.Webhooks {
			d.webhook(ctx, c.Name, w.Name, &w.ClientConfig, w.FailurePolicy)
		}
	}
	var stats v1alpha1.WebhookStatList
	if err := d.get(ctx, recorderPath+"webhookstats", &stats); err != nil {
		return notThere(err)
	}
	for n := range stats.Items {
		s := &stats.Items[n]
		if s.LastFailure != nil && d.now.Sub(s.LastFailure.Time) < time.Hour {
			d.say(worrying, "webhooks", "", "%s %s failed %d of %d times, %d of them by timeout; %d failures were ignored (fails open), the last time %s",
				s.Kind, s.Step, s.Failed, s.Calls, s.TimedOut, s.Ignored, ago(d.now, s.LastFailure.Time))
		}
		if s.P99.Duration > time.Second {
			d.say(worrying, "webhooks", "writes wait for it", "%s %s is slow: half of its calls take %v, the slowest %v", s.Kind, s.Step, s.P50.Duration, s.Max.Duration)
		}
	}
	return nil
}

// admissionOrder says in which order mutating webhooks are asked: by the names of their configurations, and within one as
// they stand there. One that is not asked again does not see what later ones change.
func (d *doctor) admissionOrder(ctx context.Context) error {
	var list admissionv1.MutatingWebhookConfigurationList
	if err := d.get(ctx, "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", &list); err != nil {
		return err
	}
	slices.SortFunc(list.Items, func(a, b admissionv1.MutatingWebhookConfiguration) int { return strings.Compare(a.Name, b.Name) })
	var order []string
	var all []admissionv1.MutatingWebhook
	for _, c := range list.Items {
		for _, w := range c.Webhooks {
			name := c.Name + "/" + w.Name
			if again(&w) {
				name += " (again if others change the object after it)"
			}
			order, all = append(order, name), append(all, w)
		}
	}
	if len(all) == 0 {
		return nil
	}
	d.say(good, "admission order", "", "mutating policies, then mutating webhooks: %s; then validating policies, and all validating webhooks at once", strings.Join(order, ", "))
	for n := range all {
		for later := n + 1; later < len(all); later++ {
			if !again(&all[n]) && meet(all[n].Rules, all[later].Rules) {
				d.say(worrying, "admission order", "if it must see the final object set reinvocationPolicy: IfNeeded, or name its configuration so that it comes later",
					"webhook %s does not see what %s changes in the same objects", order[n], order[later])
				break
			}
		}
	}
	return nil
}

func again(w *admissionv1.MutatingWebhook) bool {
	return w.ReinvocationPolicy != nil && *w.ReinvocationPolicy == admissionv1.IfNeededReinvocationPolicy
}

// meet says that two webhooks are asked about some of the same resources.
func meet(a, b []admissionv1.RuleWithOperations) bool {
	common := func(x, y []string) bool {
		return slices.Contains(x, "*") || slices.Contains(y, "*") || slices.ContainsFunc(x, func(s string) bool { return slices.Contains(y, s) })
	}
	operations := func(all []admissionv1.OperationType) (out []string) {
		for _, o := range all {
			out = append(out, string(o))
		}
		return out
	}
	return slices.ContainsFunc(a, func(x admissionv1.RuleWithOperations) bool {
		return slices.ContainsFunc(b, func(y admissionv1.RuleWithOperations) bool {
			return common(x.APIGroups, y.APIGroups) && resourcesMeet(x.Resources, y.Resources) && common(operations(x.Operations), operations(y.Operations))
		})
	})
}

// resourcesMeet does so for the resources of rules: * is all without their subresources, */* all with them, pods/* is pods
// with theirs, */scale the scale of all.
func resourcesMeet(x, y []string) bool {
	part := func(a, b string) bool { return a == b || a == "*" || b == "*" }
	return slices.ContainsFunc(x, func(a string) bool {
		return slices.ContainsFunc(y, func(b string) bool {
			of, sub, _ := strings.Cut(a, "/")
			other, otherSub, _ := strings.Cut(b, "/")
			return part(of, other) && part(sub, otherSub)
		})
	})
}

// notThere makes an error of an answer that only another server would give into none.
func notThere(err error) error {
	var refused *refusedError
	if errors.As(err, &refused) && refused.code == http.StatusNotFound {
		return nil
	}
	return err
}

// webhook looks whether a webhook can be reached at all.
func (d *doctor) webhook(ctx context.Context, configuration, name string, c *admissionv1.WebhookClientConfig, policy *admissionv1.FailurePolicyType) {
	what := "webhook " + configuration + "/" + name
	d.expiries("webhooks", "the caBundle of "+what, c.CABundle)
	if c.Service == nil {
		return
	}
	err := d.get(ctx, "/api/v1/namespaces/"+url.PathEscape(c.Service.Namespace)+"/services/"+url.PathEscape(c.Service.Name), &corev1.Service{})
	var refused *refusedError
	if !errors.As(err, &refused) || refused.code != http.StatusNotFound {
		return
	}
	if policy != nil && *policy == admissionv1.Ignore {
		d.say(worrying, "webhooks", "create the service, or delete the configuration", "%s fails open: its service %s/%s does not exist", what, c.Service.Namespace, c.Service.Name)
		return
	}
	d.say(bad, "webhooks", "create the service, or delete the configuration", "%s refuses all writes that it matches: its service %s/%s does not exist", what, c.Service.Namespace, c.Service.Name)
}

func (d *doctor) definitions(ctx context.Context) error {
	var list apiextensionsv1.CustomResourceDefinitionList
	if err := d.get(ctx, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &list); err != nil {
		return err
	}
	for n := range list.Items {
		c := &list.Items[n]
		if c.DeletionTimestamp != nil {
			d.say(worrying, "CRDs", "its objects must lose their finalizers: kanzen why crd/"+c.Name, "%s is terminating; its deletion began %s", c.Name, ago(d.now, c.DeletionTimestamp.Time))
		}
		for _, x := range c.Status.Conditions {
			wrong := x.Status == apiextensionsv1.ConditionFalse && (x.Type == apiextensionsv1.Established || x.Type == apiextensionsv1.NamesAccepted) ||
				x.Status == apiextensionsv1.ConditionTrue && x.Type == apiextensionsv1.NonStructuralSchema
			if wrong {
				d.say(bad, "CRDs", "", "%s: %s is %s: %s", c.Name, x.Type, x.Status, x.Message)
			}
		}
		for _, v := range c.Status.StoredVersions {
			if !slices.ContainsFunc(c.Spec.Versions, func(s apiextensionsv1.CustomResourceDefinitionVersion) bool { return s.Name == v }) {
				d.say(worrying, "CRDs", "migrate its objects", "%s has objects stored in version %s, which it does not define", c.Name, v)
			}
		}
	}
	return nil
}

func (d *doctor) apiServices(ctx context.Context) error {
	var list apiregistrationv1.APIServiceList
	if err := d.get(ctx, "/apis/apiregistration.k8s.io/v1/apiservices", &list); err != nil {
		return err
	}
	for n := range list.Items {
		for _, c := range list.Items[n].Status.Conditions {
			if c.Type == apiregistrationv1.Available && c.Status == apiregistrationv1.ConditionFalse {
				d.say(bad, "APIServices", "discovery, garbage collection and the deletion of namespaces wait for it", "%s is not available: %s", list.Items[n].Name, c.Message)
			}
		}
	}
	return nil
}

// stuckFrom is how long the deletion of a namespace may take.
const stuckFrom = 5 * time.Minute

func (d *doctor) namespaces(ctx context.Context) error {
	var list corev1.NamespaceList
	if err := d.get(ctx, "/api/v1/namespaces", &list); err != nil {
		return err
	}
	for n := range list.Items {
		ns := &list.Items[n]
		if ns.DeletionTimestamp == nil || d.now.Sub(ns.DeletionTimestamp.Time) < stuckFrom {
			continue
		}
		var why []string
		for _, c := range ns.Status.Conditions {
			if c.Status == corev1.ConditionTrue {
				why = append(why, c.Message)
			}
		}
		d.say(worrying, "namespaces", "kanzen why namespace/"+ns.Name, "%s is terminating; its deletion began %s: %s", ns.Name, ago(d.now, ns.DeletionTimestamp.Time), strings.Join(why, "; "))
	}
	return nil
}

func (d *doctor) deprecated(ctx context.Context) error {
	var list v1alpha1.DeprecatedUseList
	if err := d.get(ctx, recorderPath+"deprecateduses", &list); err != nil {
		return err
	}
	for n := range list.Items {
		u := &list.Items[n]
		d.say(worrying, "deprecated APIs", "", "%s in %s is used by %s, %d times, the last time %s", u.Resource, strings.TrimPrefix(u.Group+"/"+u.Version, "/"), u.User, u.Requests, ago(d.now, u.Last.Time))
	}
	return nil
}

// nearly is the part of a quota that counts as nearly used up.
const nearly = 0.9

func (d *doctor) quotas(ctx context.Context) error {
	var list corev1.ResourceQuotaList
	if err := d.get(ctx, "/api/v1/resourcequotas", &list); err != nil {
		return err
	}
	for n := range list.Items {
		q := &list.Items[n]
		for name, hard := range q.Status.Hard {
			used := q.Status.Used[name]
			if hard.AsApproximateFloat64() > 0 && used.AsApproximateFloat64() >= nearly*hard.AsApproximateFloat64() {
				d.say(worrying, "quotas", "", "%s/%s: %s of %s %s are in use", q.Namespace, q.Name, used.String(), hard.String(), name)
			}
		}
	}
	return nil
}
