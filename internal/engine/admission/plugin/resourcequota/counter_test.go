package resourcequota

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
)

func storedOf(gr schema.GroupResource, objs ...runtime.Object) Stored {
	return Stored{
		Resource: gr,
		Len:      func() (int64, error) { return int64(len(objs)), nil },
		Each: func(f func(runtime.Object) error) error {
			for _, obj := range objs {
				if err := f(obj); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func TestCounter(t *testing.T) {
	ended := newPod("ended", list("cpu", "5"), nil)
	ended.Status.Phase = corev1.PodSucceeded
	vip := newPod("vip", list("cpu", "2"), nil)
	vip.Spec.PriorityClassName = "vip"
	pods := storedOf(admission.Pods, newPod("one", list("cpu", "1"), list("memory", "1Gi")), ended, vip)
	secrets := storedOf(schema.GroupResource{Resource: "secrets"}, &corev1.Secret{}, &corev1.Secret{})
	widgets := storedOf(schema.GroupResource{Group: "example.com", Resource: "widgets"}, nil, nil, nil)
	ofClass := &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
		{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{"vip"}}}}
	for _, c := range []struct {
		name     string
		hard     corev1.ResourceList
		scopes   []corev1.ResourceQuotaScope
		selector *corev1.ScopeSelector
		was      corev1.ResourceList
		want     corev1.ResourceList
	}{
		{"pods", list("pods", "9", "count/pods", "9", "requests.cpu", "9", "limits.memory", "9"), nil, nil, nil,
			list("pods", "2", "count/pods", "3", "requests.cpu", "3", "limits.memory", "1Gi")},
		{"objects", list("secrets", "9", "count/secrets", "9", "count/widgets.example.com", "9"), nil, nil, list("secrets", "7"),
			list("secrets", "2", "count/secrets", "2", "count/widgets.example.com", "3")},
		{"in scope", list("pods", "9", "cpu", "9"), []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeNotBestEffort}, nil, nil, list("pods", "2", "cpu", "3")},
		{"out of scope", list("pods", "9"), []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}, nil, list("pods", "3"), list("pods", "0")},
		{"priority class", list("pods", "9", "cpu", "9"), nil, ofClass, nil, list("pods", "1", "cpu", "2")},
		{"what nobody counts stays, what is no longer limited goes", list("count/gadgets.example.com", "9"), nil, nil,
			list("count/gadgets.example.com", "4", "pods", "1"), list("count/gadgets.example.com", "4")},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := quota("q", nil, c.was)
			q.Spec = corev1.ResourceQuotaSpec{Hard: c.hard, Scopes: c.scopes, ScopeSelector: c.selector}
			status, err := NewCounter(at.NewObjects(), clock.RealClock{}).Status(t.Context(), q, []Stored{pods, secrets, widgets})
			if err != nil {
				t.Fatal(err)
			}
			if !equality.Semantic.DeepEqual(status.Used, c.want) || !equality.Semantic.DeepEqual(status.Hard, c.hard) {
				t.Errorf("used %s of %s, want %s of %s", join(status.Used), join(status.Hard), join(c.want), join(c.hard))
			}
			if UpToDate(q, status) {
				t.Error("it is settled before it is written")
			}
			if q.Status = status; !UpToDate(q, status) {
				t.Error("it is not settled by what is written")
			}
		})
	}
}

// Usage is counted again only after changes that can reduce it without a
// charge.
func TestChanges(t *testing.T) {
	c := NewCounter(at.NewObjects(), clock.RealClock{})
	running, ended, ending := newPod("p", list("cpu", "1"), nil), newPod("p", list("cpu", "1"), nil), newPod("p", list("cpu", "1"), nil)
	ended.Status.Phase = corev1.PodFailed
	labelled := newPod("p", list("cpu", "1"), nil)
	labelled.Labels = map[string]string{"a": "b"}
	now, grace, deadline := meta("").CreationTimestamp, int64(30), int64(60)
	now.Time = clock.RealClock{}.Now()
	ending.DeletionTimestamp, ending.DeletionGracePeriodSeconds = &now, &grace
	bounded := newPod("p", list("cpu", "1"), nil)
	bounded.Spec.ActiveDeadlineSeconds = &deadline
	for _, x := range []struct {
		name           string
		now            *corev1.Pod
		changed, again bool
	}{
		{"ended", ended, true, false},
		{"labelled", labelled, false, false},
		{"being deleted", ending, false, true},
		{"another scope", bounded, true, false},
	} {
		changed, again := c.Changes(t.Context(), admission.Pods, running, x.now)
		if changed != x.changed || again > 0 != x.again {
			t.Errorf("%s: changed %t, again after %s", x.name, changed, again)
		}
	}
	if changed, _ := c.Changes(t.Context(), schema.GroupResource{Resource: "secrets"}, &corev1.Secret{}, &corev1.Secret{}); changed {
		t.Error("a secret changed what is used")
	}
}
