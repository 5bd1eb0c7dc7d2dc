package peers

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

// What objects define is not asked of other servers, also for a while after it was deleted. What is built in is.
func TestOwned(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	o := owned{now: clk.Now}
	service := func(group string, managed string, s *apiregistrationv1.ServiceReference) *apiregistrationv1.APIService {
		return &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1." + group, Labels: map[string]string{managedLabel: managed}},
			Spec: apiregistrationv1.APIServiceSpec{Group: group, Version: "v1", Service: s}}
	}
	for _, step := range []struct {
		what, group  string
		a            *apiregistrationv1.APIService
		changed, has bool
	}{
		{what: "built in", group: "batch", a: service("batch", "onstart", nil)},
		{what: "custom", group: "a.test", a: service("a.test", managedCustom, nil), changed: true, has: true},
		{what: "custom, again", group: "a.test", a: service("a.test", managedCustom, nil), has: true},
		{what: "of an extension server", group: "b.test", a: service("b.test", "", &apiregistrationv1.ServiceReference{}), changed: true, has: true},
		{what: "deleted", group: "a.test", has: true},
		{what: "never there", group: "c.test"},
	} {
		if changed := o.see("v1."+step.group, step.a); changed != step.changed {
			t.Errorf("%s: changed is %t", step.what, changed)
		}
		if has := o.has(schema.GroupVersion{Group: step.group, Version: "v1"}); has != step.has {
			t.Errorf("%s: has is %t", step.what, has)
		}
	}
	clk.Step(grace)
	if o.forgive() {
		t.Error("forgiven early")
	}
	clk.Step(time.Second)
	if !o.forgive() || o.has(schema.GroupVersion{Group: "a.test", Version: "v1"}) || o.forgive() {
		t.Error("not forgiven")
	}
}
