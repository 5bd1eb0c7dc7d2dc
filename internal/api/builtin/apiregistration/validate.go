package apiregistration

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

const (
	maxGroupPriority   = 20000
	maxVersionPriority = 1000
)

// priority reports a priority that is out of range.
func priority(name string, value, most int32, e rules.Errors) {
	if value < 1 || value > most {
		e.Field(name).Invalid(value, fmt.Sprintf("must be positive and less than %d", most))
	}
}

func validate(_ context.Context, s *apiregistrationv1.APIService) field.ErrorList {
	spec := &s.Spec
	e := rules.At(field.NewPath("spec"))
	e.Add(rules.GenericMeta(&s.ObjectMeta, false, func(name string, prefix bool) []string {
		if m := rules.Segment(name, prefix); len(m) > 0 {
			return m
		}
		if want := spec.Version + "." + spec.Group; name != want {
			return []string{fmt.Sprintf("must be `spec.version+\".\"+spec.group`: %q", want)}
		}
		return nil
	}))
	if spec.Group != "" {
		e.DNSSubdomain("group", spec.Group)
	} else if spec.Version != "v1" {
		e.Field("group").Required("only v1 may have an empty group and it better be legacy kube")
	}
	e.Field("version").Messages(spec.Version, validation.IsDNS1035Label(spec.Version))
	priority("groupPriorityMinimum", spec.GroupPriorityMinimum, maxGroupPriority, e)
	priority("versionPriority", spec.VersionPriority, maxVersionPriority, e)
	if spec.Service == nil {
		if len(spec.CABundle) > 0 {
			e.Field("caBundle").Invalid("<bytes>", "local APIServices may not have a caBundle")
		}
		if spec.InsecureSkipTLSVerify {
			e.Field("insecureSkipTLSVerify").Invalid(true, "local APIServices may not have insecureSkipTLSVerify")
		}
		return e.List()
	}
	service := e.Field("service")
	service.Present("namespace", spec.Service.Namespace)
	service.Present("name", spec.Service.Name)
	service.ServicePort(*spec.Service.Port)
	if spec.InsecureSkipTLSVerify && len(spec.CABundle) > 0 {
		e.Field("insecureSkipTLSVerify").Invalid(true, "not together with caBundle")
	}
	return e.List()
}

func validateUpdate(ctx context.Context, s, old *apiregistrationv1.APIService) field.ErrorList {
	return append(rules.GenericMetaUpdate(&s.ObjectMeta, &old.ObjectMeta), validate(ctx, s)...)
}

func validateStatus(_ context.Context, s, old *apiregistrationv1.APIService) field.ErrorList {
	e := rules.At(field.NewPath("status", "conditions"))
	e.Add(rules.GenericMetaUpdate(&s.ObjectMeta, &old.ObjectMeta))
	for i, c := range s.Status.Conditions {
		rules.OneOf(e.Item(i), "status", c.Status, []apiregistrationv1.ConditionStatus{
			apiregistrationv1.ConditionTrue, apiregistrationv1.ConditionFalse, apiregistrationv1.ConditionUnknown,
		})
	}
	return e.List()
}
