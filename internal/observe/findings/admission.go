package findings

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/kanzen-io/kanzen/internal/api/builtin/admissionregistration"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/request"
)

// hook is a webhook of a configuration.
type hook struct {
	configuration, name string
	object              v1alpha1.ObjectReference
	client              *admissionv1.WebhookClientConfig
	ignore              bool
}

func (h *hook) id() string { return h.configuration + "/" + h.name }

func configurationOf(resource, name string) v1alpha1.ObjectReference {
	return v1alpha1.ObjectReference{Group: admissionv1.GroupName, Resource: resource, Name: name}
}

// target says where a webhook is.
func target(c *admissionv1.WebhookClientConfig) string {
	if s := c.Service; s != nil {
		return fmt.Sprintf("service %s/%s%s", s.Namespace, s.Name, ptr.Deref(s.Path, ""))
	}
	return ptr.Deref(c.URL, "")
}

// reasons says what the reasons of failed calls mean.
var reasons = map[string]string{
	"Timeout": "it does not answer in time", "ConnectionRefused": "nothing listens there (connection refused)", "ConnectionFailed": "the connection is lost or cannot be made",
	"UnknownHost": "its host name cannot be resolved", "CertificateExpired": "its serving certificate has expired, or is not valid yet",
	"CertificateOfUnknownAuthority": "its serving certificate is not signed by an authority of the caBundle", "CertificateForAnotherName": "its serving certificate is for another name",
	"CertificateInvalid": "its serving certificate is not valid", "TLSFailed": "it does not speak TLS, or refuses the handshake", "NoService": "its service does not exist",
	"NoEndpoints": "its service has no endpoints that are ready", "InvalidResponse": "its answer is not a valid review", "NotWaitedFor": "it has failed for so long that it is not asked any more",
}

func meaning(reason string) string {
	if code, ok := strings.CutPrefix(reason, "HTTP"); ok {
		return "it answers with HTTP status " + code
	}
	if text := reasons[reason]; text != "" {
		return text
	}
	return reason
}

// admission looks at webhooks and policies: at how they did in the last minute, and at configurations that cannot work.
func (l *look) admission() {
	hooks := map[string]*hook{}
	var mutating []admissionregistration.Ordered
	for _, c := range listOf[*admissionv1.MutatingWebhookConfiguration](l, "mutatingwebhookconfigurations") {
		for n := range c.Webhooks {
			w := &c.Webhooks[n]
			hooks[c.Name+"/"+w.Name] = &hook{c.Name, w.Name, configurationOf("mutatingwebhookconfigurations", c.Name), &w.ClientConfig, ignores(w.FailurePolicy)}
			mutating = append(mutating, admissionregistration.Ordered{Configuration: c.Name, Index: n, Webhook: w})
		}
		l.advise(configurationOf("mutatingwebhookconfigurations", c.Name), admissionregistration.AdviseMutating(c))
	}
	for _, c := range listOf[*admissionv1.ValidatingWebhookConfiguration](l, "validatingwebhookconfigurations") {
		for n := range c.Webhooks {
			w := &c.Webhooks[n]
			hooks[c.Name+"/"+w.Name] = &hook{c.Name, w.Name, configurationOf("validatingwebhookconfigurations", c.Name), &w.ClientConfig, ignores(w.FailurePolicy)}
		}
		l.advise(configurationOf("validatingwebhookconfigurations", c.Name), admissionregistration.AdviseValidating(c))
	}
	for k, t := range l.tally.steps {
		switch h := hooks[k.name]; {
		case k.kind == request.StepPolicy:
			l.policy(k.name, t)
		case k.kind == request.StepWebhook && h != nil:
			l.webhook(h, t)
		}
	}
	for _, h := range hooks {
		l.configured(h)
	}
	for _, o := range admissionregistration.Unseen(mutating) {
		f := l.about("WebhookOrder", v1alpha1.SeverityInfo, configurationOf("mutatingwebhookconfigurations", o.Configuration),
			"webhook %s does not see what %s changes in the same objects", o.Configuration+"/"+o.Webhook.Name, o.Later)
		f.Cause = "mutating webhooks are asked in the order of the names of their configurations, and this one is not asked again"
		f.run("kubectl patch mutatingwebhookconfiguration %s --type=json -p '[{\"op\":\"add\",\"path\":\"/webhooks/%d/reinvocationPolicy\",\"value\":\"IfNeeded\"}]'", o.Configuration, o.Index)
	}
}

func ignores(p *admissionv1.FailurePolicyType) bool { return p != nil && *p == admissionv1.Ignore }

// listOf returns the objects of a kind that configures admission; there are few.
func listOf[T any](l *look, resource string) (out []T) {
	objs, err := l.Objects.SeenList(l.ctx, schema.GroupResource{Group: admissionv1.GroupName, Resource: resource}, "")
	if err != nil {
		return nil
	}
	for _, obj := range objs {
		if t, ok := obj.(T); ok {
			out = append(out, t)
		}
	}
	return out
}

// advise tells what is dangerous in a configuration.
func (l *look) advise(o v1alpha1.ObjectReference, advice []string) {
	if len(advice) == 0 {
		return
	}
	f := l.about("WebhookDangerous", v1alpha1.SeverityInfo, o, "configuration %s can stop the cluster if its webhook fails", o.Name)
	f.Cause = advice[0]
	for _, text := range advice {
		f.saw("%s", text)
	}
	f.run("kubectl get %s %s -o yaml", o.Resource, o.Name)
}

// webhook looks at the calls of the last minute.
func (l *look) webhook(h *hook, t *stepTally) {
	slot := slotOf(l.time)
	calls, failed, ignored, slow := t.calls.sum(slot), t.failed.sum(slot), t.ignored.sum(slot), t.slow.sum(slot)
	affected := func(f *finding, what string, n float64) {
		f.Impact = fmt.Sprintf("%s in the last minute, of %s, by %s", plural(int(n), what), t.resources.list(), t.users.list())
		f.Requests = slices.Clone(t.requests)
		f.saw("%s in the last minute, %.0f failed, %.0f of a second or more; the slowest took %s", plural(int(calls), "call"), failed+ignored, slow, short(t.longest))
		f.run("kubectl get %s %s -o yaml", h.object.Resource, h.configuration)
		if s := h.client.Service; s != nil {
			f.run("kubectl get service,endpointslices -n %s -l kubernetes.io/service-name=%s", s.Namespace, s.Name)
		}
	}
	switch {
	case failed > 0:
		severity := v1alpha1.SeverityError
		if t.failing.IsZero() && failed < fewFailures*calls { // it has answered since
			severity = v1alpha1.SeverityWarning
		}
		f := l.find("WebhookFailing", severity, h.id(), "webhook %s fails, and writes are refused", h.id())
		f.Object, f.reads, f.Since.Time = &h.object, []v1alpha1.ObjectReference{h.object}, t.failing
		f.Cause = target(h.client) + ": " + meaning(t.reason)
		affected(f, "refused write", failed)
		f.run("kubectl annotate %s %s admission.kanzen.io/mode=shadow", h.object.Resource, h.configuration)
	case ignored > 0:
		f := l.find("WebhookIgnored", v1alpha1.SeverityWarning, h.id(), "webhook %s fails, and writes pass without it", h.id())
		f.Object, f.reads, f.Since.Time = &h.object, []v1alpha1.ObjectReference{h.object}, t.failing
		f.Cause = target(h.client) + ": " + meaning(t.reason)
		affected(f, "unexamined write", ignored)
	case slow > 0 && slow >= calls/2:
		f := l.find("WebhookSlow", v1alpha1.SeverityWarning, h.id(), "webhook %s is slow: calls take %s on average", h.id(), short(seconds(t.seconds.sum(slot)/calls)))
		f.Object, f.reads = &h.object, []v1alpha1.ObjectReference{h.object}
		f.Cause = target(h.client) + " answers late"
		affected(f, "delayed write", slow)
		f.run("kubectl get webhookstats")
	}
	if refused := t.refused.sum(slot); refused > 0 {
		l.refuses("WebhookRefusing", "webhook", h.id(), h.object, t, refused)
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// fewFailures is the part of failed calls below which a webhook that answers again is no emergency.
const fewFailures = 0.1

// manyRefusals is how many refusals in a minute are a warning: a person tries again a few times, a controller goes on.
const manyRefusals = 5

// refuses tells of a webhook or policy that refuses writes. That is what it is for, but who is refused may not know it.
func (l *look) refuses(check, kind, id string, o v1alpha1.ObjectReference, t *stepTally, refused float64) {
	severity := v1alpha1.SeverityInfo
	if refused >= manyRefusals {
		severity = v1alpha1.SeverityWarning
	}
	f := l.find(check, severity, id, "%s %s refuses writes", kind, id)
	f.Object, f.reads = &o, []v1alpha1.ObjectReference{o}
	f.Impact = fmt.Sprintf("%s in the last minute, by %s", plural(int(refused), "refused write"), t.refusedUsers.list())
	f.Cause = "the " + kind + " does not allow them"
	f.Requests = slices.Clone(t.refusals)
	f.run("kubectl get %s %s -o yaml", o.Resource, o.Name)
	f.run("kubectl get request %s -o yaml", t.refusals[len(t.refusals)-1])
}

func (l *look) policy(id string, t *stepTally) {
	slot := slotOf(l.time)
	name, binding, mutates := strings.Cut(id, "/")
	resource := "validatingadmissionpolicies"
	if mutates && binding != "" {
		resource = "mutatingadmissionpolicies"
	}
	if _, err := l.Objects.Seen(l.ctx, schema.GroupResource{Group: admissionv1.GroupName, Resource: resource}, "", name); err != nil {
		return
	}
	o := configurationOf(resource, name)
	if refused := t.refused.sum(slot); refused > 0 {
		l.refuses("PolicyRefusing", "policy", id, o, t, refused)
	}
	if failed := t.failed.sum(slot); failed > 0 {
		f := l.find("PolicyFailing", v1alpha1.SeverityError, id, "policy %s cannot be evaluated, and writes are refused", id)
		f.Object, f.reads = &o, []v1alpha1.ObjectReference{o}
		f.Impact = fmt.Sprintf("%s in the last minute, by %s", plural(int(failed), "refused write"), t.users.list())
		f.Cause, f.Requests = "an expression fails on these objects, or its parameters are missing", slices.Clone(t.requests)
		f.run("kubectl get %s %s -o yaml", resource, name)
	}
}

// configured looks at what a configuration says, without a call.
func (l *look) configured(h *hook) {
	if c := expiry(h.client.CABundle, l.time); c != "" {
		f := l.find("WebhookAuthorityExpired", v1alpha1.SeverityError, h.id(), "the caBundle of webhook %s has expired", h.id())
		f.Object, f.reads, f.Cause = &h.object, []v1alpha1.ObjectReference{h.object}, c
		f.Impact = "every call fails"
		f.run("kubectl get %s %s -o yaml", h.object.Resource, h.configuration)
	}
	s := h.client.Service
	if s == nil {
		return
	}
	if _, err := l.Objects.Seen(l.ctx, schema.GroupResource{Resource: "services"}, s.Namespace, s.Name); !apierrors.IsNotFound(err) {
		return
	}
	severity, effect := v1alpha1.SeverityError, "all writes that it matches are refused"
	if h.ignore {
		severity, effect = v1alpha1.SeverityWarning, "all writes that it matches pass without it"
	}
	f := l.find("WebhookWithoutService", severity, h.id(), "webhook %s has no service: %s", h.id(), effect)
	f.Object, f.reads = &h.object, []v1alpha1.ObjectReference{h.object, {Resource: "services", Namespace: s.Namespace, Name: s.Name}}
	f.Impact, f.Cause = effect, fmt.Sprintf("service %s/%s does not exist", s.Namespace, s.Name)
	f.run("kubectl get services -n %s", s.Namespace)
	f.run("kubectl delete %s %s", h.object.Resource, h.configuration)
}

// expiry says if all certificates of a bundle have expired; "" if one is valid, or there is none.
func expiry(bundle []byte, now time.Time) (what string) {
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			return what
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue
		}
		if now.Before(c.NotAfter) {
			return ""
		}
		what = fmt.Sprintf("%s expired on %s", c.Subject, c.NotAfter.UTC().Format(time.RFC3339))
	}
}

// conversions looks at the conversions of custom resources by webhooks.
func (l *look) conversions() {
	slot := slotOf(l.time)
	for k, t := range l.tally.steps {
		if k.kind != request.StepConversion {
			continue
		}
		failed, slow, calls := t.failed.sum(slot), t.slow.sum(slot), t.calls.sum(slot)
		if failed == 0 && (slow == 0 || slow < calls/2) {
			continue
		}
		c := l.definition(k.name)
		if c == nil || c.Spec.Conversion == nil || c.Spec.Conversion.Webhook == nil || c.Spec.Conversion.Webhook.ClientConfig == nil {
			continue // it is repaired, or gone
		}
		cc := c.Spec.Conversion.Webhook.ClientConfig
		at := &admissionv1.WebhookClientConfig{URL: cc.URL}
		if s := cc.Service; s != nil {
			at.Service = &admissionv1.ServiceReference{Namespace: s.Namespace, Name: s.Name, Path: s.Path}
		}
		o := definitionOf(k.name)
		var f *finding
		if failed > 0 {
			f = l.about("ConversionFailing", v1alpha1.SeverityError, o, "objects of %s cannot be converted between versions", k.name)
			f.Impact = fmt.Sprintf("reads and writes in other versions than the stored one fail, %s in the last minute, by %s; objects cannot be collected or listed with them",
				plural(int(failed), "time"), t.users.list())
			f.Cause = target(at) + ": " + meaning(t.reason)
			f.Since.Time = t.failing
		} else {
			f = l.about("ConversionSlow", v1alpha1.SeverityWarning, o, "the conversion of %s is slow: calls take %s on average", k.name, short(seconds(t.seconds.sum(slot)/calls)))
			f.Impact = fmt.Sprintf("%s in the last minute, by %s", plural(int(slow), "delayed request"), t.users.list())
			f.Cause = target(at) + " answers late"
		}
		f.Requests = slices.Clone(t.requests)
		f.saw("%s of the conversion webhook in the last minute, %.0f failed", plural(int(calls), "call"), failed)
		f.run("kubectl get crd %s -o jsonpath='{.spec.conversion}'", k.name)
	}
}
