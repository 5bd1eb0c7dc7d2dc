package resource

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// deviceTaintRules are written by administrators, to taint devices whatever their drivers publish.
func deviceTaintRules(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "devicetaintrules", Kind: "DeviceTaintRule",
		// Upstream stores what 1.36 can read.
		Stored: &engine.Stored{GroupVersion: resourcev1beta2.SchemeGroupVersion},
		Versions: engine.Renamed(engine.VersionOf[resourcev1.DeviceTaintRule, resourcev1.DeviceTaintRuleList](v1, d.defaultTaintRule),
			engine.Lenient(engine.VersionOf[resourcev1beta2.DeviceTaintRule, resourcev1beta2.DeviceTaintRuleList](resourcev1beta2.SchemeGroupVersion, nil)),
			engine.Lenient(engine.VersionOf[resourcev1alpha3.DeviceTaintRule, resourcev1alpha3.DeviceTaintRuleList](resourcev1alpha3.SchemeGroupVersion, nil)),
		),
		Rules: engine.Typed[*resourcev1.DeviceTaintRule]{
			StatusApart: true,
			CountsSpec:  true,
			PrepareUpdate: func(_ context.Context, r, old *resourcev1.DeviceTaintRule) {
				d.renewTaint(&r.Spec.Taint, &old.Spec.Taint)
			},
			Validate:             validateTaintRule,
			ValidateUpdate:       validateTaintRuleUpdate,
			NeedsResourceVersion: true,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.WithoutTable(engine.LoneStatus(engine.Typed[*resourcev1.DeviceTaintRule]{
			ValidateUpdate:       validateTaintRuleStatus,
			NeedsResourceVersion: true,
		}))},
		Table: taintRuleTable(),
	}
}

func (d Deps) defaultTaintRule(r *resourcev1.DeviceTaintRule) {
	d.defaultTaint(&r.Spec.Taint)
}

// renewTaint dates a taint anew when its effect changes, unless the client does: how long pods tolerate a taint counts
// from when it got its effect.
func (d Deps) renewTaint(t, old *resourcev1.DeviceTaint) {
	if t.Effect != old.Effect && t.TimeAdded.Equal(old.TimeAdded) {
		t.TimeAdded = nil
		d.defaultTaint(t)
	}
}

func validateTaintRule(_ context.Context, r *resourcev1.DeviceTaintRule) field.ErrorList {
	errs := rules.ObjectMeta(&r.ObjectMeta, false, rules.Subdomain)
	return append(errs, taintRule(&r.Spec, "")...)
}

func validateTaintRuleUpdate(_ context.Context, r, old *resourcev1.DeviceTaintRule) field.ErrorList {
	errs := rules.ObjectMetaUpdate(&r.ObjectMeta, &old.ObjectMeta)
	return append(errs, taintRule(&r.Spec, old.Spec.Taint.Effect)...)
}

// taintRule validates a spec. The effect that the stored one has is not judged again.
func taintRule(s *resourcev1.DeviceTaintRuleSpec, stored resourcev1.DeviceTaintEffect) field.ErrorList {
	e := rules.At(specPath)
	if which := s.DeviceSelector; which != nil {
		at := e.Field("deviceSelector")
		if which.Driver != nil {
			at.CSIDriverName("driver", *which.Driver)
		}
		if which.Pool != nil {
			poolName(*which.Pool, at)
		}
		if which.Device != nil {
			at.DNSLabel("device", *which.Device)
		}
	}
	taintKey(&s.Taint, e.Field("taint"))
	if s.Taint.Effect == "" || s.Taint.Effect != stored {
		taintEffect(&s.Taint, e.Field("taint"))
	}
	return e.List()
}

func validateTaintRuleStatus(_ context.Context, r, old *resourcev1.DeviceTaintRule) field.ErrorList {
	e := rules.At(statusPath)
	e.Add(rules.ObjectMetaUpdate(&r.ObjectMeta, &old.ObjectMeta))
	at := statusPath.Child("conditions")
	e.Add(metavalidation.ValidateConditions(r.Status.Conditions, at))
	if n := len(r.Status.Conditions); n > resourcev1.DeviceTaintRuleStatusMaxConditions {
		e.AddError(field.TooMany(at, n, resourcev1.DeviceTaintRuleStatusMaxConditions))
	}
	return e.List()
}
