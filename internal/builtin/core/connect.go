package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// proxySubresource passes HTTP requests on to a node, pod or service.
func proxySubresource(optionsKind string) *engine.Subresource {
	return &engine.Subresource{
		Name: "proxy", Verbs: []string{"create", "delete", "get", "patch", "update"},
		Kind:    v1.WithKind(optionsKind),
		Connect: "proxy",
	}
}

// streamSubresource is a stream to a container of a pod.
func streamSubresource(name, optionsKind string) *engine.Subresource {
	return &engine.Subresource{
		Name: name, Verbs: []string{"create", "get"},
		Kind:    v1.WithKind(optionsKind),
		Connect: name,
	}
}

// ValidateLogOptions checks the query of a request for a container's log,
// which is refused as an invalid PodLogOptions.
func ValidateLogOptions(o *corev1.PodLogOptions) field.ErrorList {
	var errs field.ErrorList
	if o.TailLines != nil && *o.TailLines < 0 {
		errs = append(errs, field.Invalid(field.NewPath("tailLines"), *o.TailLines, "must be greater than or equal to 0"))
	}
	if o.LimitBytes != nil && *o.LimitBytes < 1 {
		errs = append(errs, field.Invalid(field.NewPath("limitBytes"), *o.LimitBytes, "must be greater than 0"))
	}
	switch {
	case o.SinceSeconds != nil && o.SinceTime != nil:
		errs = append(errs, field.Forbidden(field.NewPath(""), "at most one of `sinceTime` or `sinceSeconds` may be specified"))
	case o.SinceSeconds != nil && *o.SinceSeconds < 1:
		errs = append(errs, field.Invalid(field.NewPath("sinceSeconds"), *o.SinceSeconds, "must be greater than 0"))
	}
	if o.Stream != nil {
		errs = append(errs, field.Forbidden(field.NewPath("stream"), "may not be specified"))
	}
	return errs
}
