package core

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func limitRanges(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "limitranges", Kind: "LimitRange",
		ShortNames: []string{"limits"},
		Namespaced: true,
		Versions:   only(engine.VersionOf[corev1.LimitRange, corev1.LimitRangeList](v1, defaultLimitRange)),
		Rules: engine.Typed[*corev1.LimitRange]{
			CreateOnUpdate: true,
			Validate:       func(_ context.Context, l *corev1.LimitRange) field.ErrorList { return validateLimitRange(l) },
			ValidateUpdate: func(_ context.Context, l, _ *corev1.LimitRange) field.ErrorList { return validateLimitRange(l) },
			PrepareCreate: func(_ context.Context, l *corev1.LimitRange) {
				if l.Name == "" {
					l.Name = string(d.NewUID())
				}
			},
		}.Rules(),
	}
}

func defaultLimitRange(l *corev1.LimitRange) {
	for i := range l.Spec.Limits {
		item := &l.Spec.Limits[i]
		if item.Type == corev1.LimitTypeContainer {
			if item.Default == nil {
				item.Default = corev1.ResourceList{}
			}
			if item.DefaultRequest == nil {
				item.DefaultRequest = corev1.ResourceList{}
			}
			fillMissing(item.Default, item.Max)
			fillMissing(item.DefaultRequest, item.Default)
			fillMissing(item.DefaultRequest, item.Min)
		}
		rules.DefaultResources(item.Max, item.Min, item.Default, item.DefaultRequest, item.MaxLimitRequestRatio)
	}
}

func fillMissing(to, from corev1.ResourceList) {
	for name, q := range from {
		if _, found := to[name]; !found {
			to[name] = q.DeepCopy()
		}
	}
}

func validateLimitRange(l *corev1.LimitRange) field.ErrorList {
	e := rules.At(field.NewPath("spec", "limits"))
	e.Add(rules.ObjectMeta(&l.ObjectMeta, true, rules.Subdomain))
	types := map[corev1.LimitType]bool{}
	for i := range l.Spec.Limits {
		item, limit := e.Item(i), &l.Spec.Limits[i]
		limitType(limit.Type, item.Field("type"))
		if types[limit.Type] {
			item.Field("type").Duplicate(limit.Type)
		}
		types[limit.Type] = true
		limits(limit, item)
	}
	return e.List()
}

func limitType(t corev1.LimitType, e rules.Errors) {
	if m := validation.IsQualifiedName(string(t)); len(m) > 0 {
		e.Messages(t, m)
	} else if !strings.Contains(string(t), "/") &&
		t != corev1.LimitTypePod && t != corev1.LimitTypeContainer && t != corev1.LimitTypePersistentVolumeClaim {
		e.Invalid(t, "must be a standard limit type or fully qualified")
	}
}

// limits validates the limits of one type: min <= defaultRequest <= default <= max.
func limits(l *corev1.LimitRangeItem, e rules.Errors) {
	if l.Type == corev1.LimitTypePersistentVolumeClaim {
		_, least := l.Min[corev1.ResourceStorage]
		_, most := l.Max[corev1.ResourceStorage]
		if !least && !most {
			e.Field("limits").Required("must have a minimum or maximum of storage")
		}
	}
	if l.Type == corev1.LimitTypePod {
		if len(l.Default) > 0 {
			e.Field("default").Forbidden("not for type Pod")
		}
		if len(l.DefaultRequest) > 0 {
			e.Field("defaultRequest").Forbidden("not for type Pod")
		}
		l = &corev1.LimitRangeItem{Type: l.Type, Min: l.Min, Max: l.Max, MaxLimitRequestRatio: l.MaxLimitRequestRatio}
	}
	names := map[corev1.ResourceName]bool{}
	for field, list := range map[string]corev1.ResourceList{
		"max": l.Max, "min": l.Min, "default": l.Default, "defaultRequest": l.DefaultRequest, "maxLimitRequestRatio": l.MaxLimitRequestRatio,
	} {
		for name := range list {
			names[name] = true
			if at := e.Field(field).Key(string(name)); l.Type == corev1.LimitTypePod || l.Type == corev1.LimitTypeContainer {
				at.ContainerResourceName(name)
			} else {
				at.ResourceName(name)
			}
		}
	}
	for name := range names {
		limitsOf(name, l, e)
	}
}

func limitsOf(name corev1.ResourceName, l *corev1.LimitRangeItem, e rules.Errors) {
	ordered := func(lowName, highName, at string, low, high corev1.ResourceList) {
		a, foundA := low[name]
		b, foundB := high[name]
		if foundA && foundB && a.Cmp(b) > 0 {
			e.Field(at).Key(string(name)).Invalid(a.String(), fmt.Sprintf("%s value %s is greater than %s value %s", lowName, a.String(), highName, b.String()))
		}
	}
	ordered("min", "max", "min", l.Min, l.Max)
	ordered("min", "default request", "defaultRequest", l.Min, l.DefaultRequest)
	ordered("default request", "max", "defaultRequest", l.DefaultRequest, l.Max)
	ordered("default request", "default limit", "defaultRequest", l.DefaultRequest, l.Default)
	ordered("min", "default", "default", l.Min, l.Default)
	ordered("default", "max", "default", l.Default, l.Max)
	limit, hasLimit := l.Default[name]
	request, hasRequest := l.DefaultRequest[name]
	if hasLimit && hasRequest && !rules.IsOvercommitAllowed(name) && limit.Cmp(request) != 0 {
		e.Field("defaultRequest").Key(string(name)).Invalid(request.String(), "must equal default: it cannot be overcommitted")
	}
	if ratio, found := l.MaxLimitRequestRatio[name]; found {
		limitRatio(ratio, name, l, e.Field("maxLimitRequestRatio").Key(string(name)))
	}
}

// limitRatio validates maxLimitRequestRatio: at least 1, at most max divided by min.
func limitRatio(ratio resource.Quantity, name corev1.ResourceName, l *corev1.LimitRangeItem, e rules.Errors) {
	if ratio.Cmp(resource.MustParse("1")) < 0 {
		e.Invalid(ratio.String(), fmt.Sprintf("ratio %s is less than 1", ratio.String()))
	}
	least, hasMin := l.Min[name]
	most, hasMax := l.Max[name]
	if !hasMin || !hasMax {
		return
	}
	r, lo, hi := float64(ratio.Value()), least.Value(), most.Value()
	if ratio.Value() < resource.MaxMilliValue && lo < resource.MaxMilliValue && hi < resource.MaxMilliValue {
		r, lo, hi = float64(ratio.MilliValue())/1000, least.MilliValue(), most.MilliValue()
	}
	if span := float64(hi) / float64(lo); r > span {
		e.Invalid(ratio.String(), fmt.Sprintf("ratio %s is greater than max/min = %f", ratio.String(), span))
	}
}
