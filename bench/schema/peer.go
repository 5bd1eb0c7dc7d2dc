package schema

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/warning"
)

// peer does with a schema what kube-apiserver does, in the order in which it
// does it (its strategy for custom resources is not exported as a whole).
type peer struct {
	structural  *structuralschema.Structural
	validator   validation.SchemaValidator
	status      validation.SchemaValidator
	expressions *cel.Validator
}

func newPeer(p *apiextensionsv1.JSONSchemaProps) (out *peer, err error) {
	defer func() {
		// It panics where a rule's fieldPath leads through additionalProperties: true.
		if what := recover(); what != nil {
			err = fmt.Errorf("panic: %v", what)
		}
	}()
	in := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(p.DeepCopy(), in, nil); err != nil {
		return nil, err
	}
	s, err := structuralschema.NewStructural(in)
	if err != nil {
		return nil, err
	}
	if errs := structuralschema.ValidateStructural(nil, s); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	out = &peer{structural: s.DeepCopy()}
	if err := defaulting.PruneDefaults(out.structural); err != nil {
		return nil, err
	}
	if out.validator, _, err = validation.NewSchemaValidator(in); err != nil {
		return nil, err
	}
	if status, ok := in.Properties["status"]; ok {
		if out.status, _, err = validation.NewSchemaValidator(&status); err != nil {
			return nil, err
		}
	}
	out.expressions = cel.NewValidator(out.structural, true, celconfig.PerCallLimit)
	return out, nil
}

func (p *peer) coerce(obj map[string]any, drop, report bool) (unknown []string, err error) {
	meta, found, metaUnknown, err := objectmeta.GetObjectMetaWithOptions(obj, objectmeta.ObjectMetaOptions{
		DropMalformedFields: drop, ReturnUnknownFieldPaths: report})
	if err != nil {
		return nil, err
	}
	unknown = append(unknown, metaUnknown...)
	unknown = append(unknown, pruning.PruneWithOptions(obj, p.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: report})...)
	defaulting.PruneNonNullableNullsWithoutDefaults(obj, p.structural)
	fieldErr, paths := objectmeta.CoerceWithOptions(nil, obj, p.structural, false, objectmeta.CoerceOptions{DropInvalidFields: drop, ReturnUnknownFieldPaths: report})
	if fieldErr != nil {
		return nil, fieldErr
	}
	unknown = append(unknown, paths...)
	if found {
		if err := objectmeta.SetObjectMeta(obj, meta); err != nil {
			return nil, err
		}
	}
	return unknown, nil
}

func (p *peer) defaults(obj map[string]any) { defaulting.Default(obj, p.structural) }

func (p *peer) create(obj map[string]any) field.ErrorList {
	errs := validation.ValidateCustomResource(nil, obj, p.validator)
	errs = append(errs, objectmeta.Validate(context.Background(), nil, obj, p.structural, false)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, p.structural, obj)...)
	return p.rules(context.Background(), errs, obj, nil)
}

func (p *peer) update(ctx context.Context, obj, old map[string]any) field.ErrorList {
	correlated := common.NewCorrelatedObject(obj, old, &model.Structural{Structural: p.structural})
	errs := validation.ValidateCustomResourceUpdate(nil, obj, old, p.validator, validation.WithRatcheting(correlated))
	errs = append(errs, objectmeta.Validate(context.Background(), nil, obj, p.structural, false)...)
	if len(listtype.ValidateListSetsAndMaps(nil, p.structural, old)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, p.structural, obj)...)
	}
	return p.rules(ctx, errs, obj, old, cel.WithRatcheting(correlated))
}

func (p *peer) statusUpdate(ctx context.Context, obj, old map[string]any) field.ErrorList {
	correlated := common.NewCorrelatedObject(obj, old, &model.Structural{Structural: p.structural})
	var errs field.ErrorList
	if status, ok := obj["status"]; ok {
		errs = validation.ValidateCustomResourceUpdate(field.NewPath("status"), status, old["status"], p.status, validation.WithRatcheting(correlated.Key("status")))
	}
	if found := listtype.ValidateListSetsAndMaps(nil, p.structural, obj); len(found) > 0 {
		if len(listtype.ValidateListSetsAndMaps(nil, p.structural, old)) == 0 {
			errs = append(errs, found...)
		}
	}
	return p.rules(ctx, errs, obj, old, cel.WithRatcheting(correlated))
}

func (p *peer) rules(ctx context.Context, errs field.ErrorList, obj, old map[string]any, options ...cel.Option) field.ErrorList {
	if p.expressions == nil {
		return errs
	}
	for _, err := range errs {
		if slices.Contains([]field.ErrorType{field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong,
			field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid}, err.Type) {
			return append(errs, field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"))
		}
	}
	var was any
	if old != nil {
		was = old
	}
	more, _ := p.expressions.Validate(ctx, nil, p.structural, obj, was, celconfig.RuntimeCELCostBudget, options...)
	return append(errs, more...)
}

// recorder collects warnings.
type recorder []string

func (r *recorder) AddWarning(_, text string) { *r = append(*r, text) }

var _ warning.Recorder = (*recorder)(nil)

// evaluating is the part of an error of an expression that depends on which of
// several faulty values it meets first.
var evaluating = regexp.MustCompile(`(Invalid value: "[a-z]*": ).* evaluating rule: `)

// lines are errors as texts, sorted: upstream's order changes from call to
// call.
func lines(errs field.ErrorList) []string {
	out := make([]string, 0, len(errs))
	for _, err := range errs {
		out = append(out, evaluating.ReplaceAllString(fmt.Sprintf("%s\t%s\t%v", err.Type, err.Field, err), "${1}evaluating rule: "))
	}
	slices.Sort(out)
	return out
}
