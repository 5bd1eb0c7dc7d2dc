package crd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubeversion "k8s.io/apimachinery/pkg/version"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/fieldmanager"
	"github.com/kanzen-io/kanzen/internal/request/extensions"
)

// subresourceVerbs are the verbs of status and scale.
var subresourceVerbs = []string{"get", "patch", "update"}

// hiddenAnnotation with the value "hidden" on a definition keeps values of its objects out of the flight recorder.
const hiddenAnnotation = "flightrecorder.kanzen.io/values"

// resource returns one version of the definition as the engine serves it.
func (s *serving) resource(name string) (*engine.Resource, error) {
	d := s.spec
	v := versionOf(d, name)
	if v == nil {
		return nil, fmt.Errorf("definition %s has no version %s", d.Name, name)
	}
	names := s.def.accepted
	k := &kind{serving: s, version: name, gvk: s.def.gv(name).WithKind(names.Kind), namespaced: s.def.namespaced}
	if sub := v.Subresources; sub != nil {
		k.status, k.scale = sub.Status != nil, sub.Scale
	}
	r := &engine.Resource{
		Plural: names.Plural, Singular: names.Singular, Kind: names.Kind, ListKind: names.ListKind,
		ShortNames: names.ShortNames, Categories: names.Categories,
		Namespaced: s.def.namespaced,
		Prefix:     s.def.prefix(),
		Hub:        k.gvk.GroupVersion(),
		Codec:      s.codec(name),
		Types: func() (fieldmanager.Types, error) {
			c, err := s.schema(name)
			if err != nil {
				return nil, err
			}
			return typeConverter{s, c.Type()}, nil
		},
		Rules:         k.rules(),
		ReturnDeleted: false,
		Secret:        s.def.hidden,
		Table:         tableOf(v.AdditionalPrinterColumns),
		Fields:        fieldsOf(v.SelectableFields),
	}
	if engine := cmp.Or(s.def.engine, s.server.Engine); engine.Extensions.Has(extensions.Selectors) {
		addIndexed(r, s.def.indexed)
	}
	if s.def.terminating {
		r.Rules.BeginCreate = func(_ context.Context, obj engine.Object, _ bool) (func(bool), error) {
			return nil, apierrors.NewForbidden(k.gvk.GroupVersion().WithResource(names.Plural).GroupResource(), obj.GetName(), errTerminating)
		}
	}
	for _, other := range d.Spec.Versions {
		r.Versions = append(r.Versions, s.engineVersion(&other, name))
	}
	if k.status {
		rules := k.statusRules()
		r.Subresources = append(r.Subresources, &engine.Subresource{Name: "status", Verbs: subresourceVerbs, Rules: &rules, Table: true})
	}
	if k.scale != nil {
		r.Subresources = append(r.Subresources, &engine.Subresource{
			Name: "scale", Verbs: subresourceVerbs, Kind: autoscalingv1.SchemeGroupVersion.WithKind("Scale"), Scale: scaleOf(k.scale)})
	}
	if s.def.finish != nil {
		s.def.finish(r)
	}
	return r, nil
}

// codec returns the codec for requests in one version.
func (s *serving) codec(version string) engine.Codec {
	c := codec{s, version}
	if s.spec.Spec.Conversion != nil && s.spec.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter {
		return batchCodec{c}
	}
	return c
}

// errTerminating is why nothing is created while a definition is being deleted.
var errTerminating = errors.New("create not allowed while custom resource definition is terminating")

func versionOf(d *apiextensionsv1.CustomResourceDefinition, name string) *apiextensionsv1.CustomResourceDefinitionVersion {
	for i := range d.Spec.Versions {
		if d.Spec.Versions[i].Name == name {
			return &d.Spec.Versions[i]
		}
	}
	return nil
}

// engineVersion returns a version of the Resource whose hub is the version named hub.
func (s *serving) engineVersion(v *apiextensionsv1.CustomResourceDefinitionVersion, hub string) *engine.Version {
	name := v.Name
	out := &engine.Version{
		GroupVersion: s.def.gv(name),
		New:          func() engine.Object { return &unstructured.Unstructured{Object: map[string]any{}} },
		Default: func(obj engine.Object) {
			if c, err := s.schema(name); err == nil {
				c.Default(content(obj))
			}
		},
		Prune: func(obj engine.Object) ([]string, error) {
			return s.prune(content(obj), name)
		},
	}
	if v.Deprecated {
		out.Deprecation = &engine.Deprecation{Warning: deprecation(s.spec, v)}
	}
	if name != hub {
		out.ToHub = func(ctx context.Context, obj engine.Object) (engine.Object, error) { return s.converted(ctx, obj, hub) }
		out.FromHub = func(ctx context.Context, obj engine.Object) (engine.Object, error) {
			return s.converted(ctx, obj, name)
		}
	}
	return out
}

// deprecation returns the warning in every response of a deprecated version.
func deprecation(d *apiextensionsv1.CustomResourceDefinition, v *apiextensionsv1.CustomResourceDefinitionVersion) string {
	if v.DeprecationWarning != nil {
		return *v.DeprecationWarning
	}
	msg := fmt.Sprintf("%s/%s %s is deprecated", d.Spec.Group, v.Name, d.Spec.Names.Kind)
	better := ""
	for _, o := range d.Spec.Versions {
		if o.Served && !o.Deprecated && kubeversion.CompareKubeAwareVersionStrings(v.Name, o.Name) < 0 &&
			(better == "" || kubeversion.CompareKubeAwareVersionStrings(better, o.Name) < 0) {
			better = o.Name
		}
	}
	if better == "" {
		return msg
	}
	return fmt.Sprintf("%s; use %s/%s %s", msg, d.Spec.Group, better, d.Spec.Names.Kind)
}

// content returns the object's JSON.
func content(obj engine.Object) map[string]any { return obj.(*unstructured.Unstructured).Object }

// path splits a simple JSON path (".spec.replicas").
func path(p string) []string { return strings.Split(strings.TrimPrefix(p, "."), ".") }
