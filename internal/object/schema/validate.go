package schema

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Verdict is the result of validating an object.
type Verdict struct {
	Errors field.ErrorList
	// Warnings are about rules that the object breaks and that an update does not enforce, because the value is
	// unchanged.
	Warnings []string
}

// ValidateCreate validates a new object. found are errors found by the caller (in metadata, say), which come first in
// the result. Rules are not evaluated if an error makes that pointless.
func (s *Schema) ValidateCreate(ctx context.Context, obj map[string]any, found ...*field.Error) Verdict {
	errs := append(field.ErrorList(nil), found...)
	if s.root == nil {
		return Verdict{Errors: errs}
	}
	errs = append(errs, s.root.conforms(obj, before{}, nil, nil)...)
	errs = append(errs, s.resources(obj)...)
	errs = append(errs, s.lists(obj)...)
	return s.rules(ctx, obj, nil, errs, nil)
}

// ValidateUpdate validates an updated object. Unchanged values may stay invalid. found is as in ValidateCreate.
func (s *Schema) ValidateUpdate(ctx context.Context, obj, old map[string]any, found ...*field.Error) Verdict {
	r := &ratchet{now: s.timing.Now}
	defer r.end(s.timing)
	errs := append(field.ErrorList(nil), found...)
	if s.root == nil {
		return Verdict{Errors: errs}
	}
	errs = append(errs, s.root.conforms(obj, before{old, true}, nil, r)...)
	errs = append(errs, s.resources(obj)...)
	errs = append(errs, s.newRepetitions(obj, old)...)
	return s.rules(ctx, obj, old, errs, r)
}

// ValidateStatusUpdate is ValidateUpdate for an update of the status, and validates only that against its schema. obj
// is the whole object.
func (s *Schema) ValidateStatusUpdate(ctx context.Context, obj, old map[string]any, found ...*field.Error) Verdict {
	r := &ratchet{now: s.timing.Now}
	defer r.end(s.timing)
	errs := append(field.ErrorList(nil), found...)
	if s.root == nil {
		return Verdict{Errors: errs}
	}
	if status, ok := obj["status"]; ok {
		if n := s.root.property("status"); n != nil {
			errs = append(errs, n.conforms(status, before{old["status"], true}, field.NewPath("status"), r)...)
		}
	}
	errs = append(errs, s.newRepetitions(obj, old)...)
	return s.rules(ctx, obj, old, errs, r)
}

// resources returns the errors of embedded resources.
func (s *Schema) resources(obj map[string]any) field.ErrorList {
	var c collector
	c.resources(s.root, obj, nil)
	sortByField(c.errs)
	return c.errs
}

// lists returns the duplicates in lists of type set and map.
func (s *Schema) lists(obj map[string]any) field.ErrorList {
	var c collector
	c.lists(s.root, obj, nil)
	sortByField(c.errs)
	return c.errs
}

// newRepetitions returns the duplicates in lists of type set and map, unless the old object had some.
func (s *Schema) newRepetitions(obj, old map[string]any) field.ErrorList {
	errs := s.lists(obj)
	if len(errs) == 0 || len(s.lists(old)) > 0 {
		return nil
	}
	return errs
}

// conforms validates v against n; path is the path of the value.
func (n *node) conforms(v any, old before, path *field.Path, r *ratchet) field.ErrorList {
	c := validator{ratchet: r}
	if c.value(n, v, old); len(c.found) == 0 {
		return nil
	}
	errs := fieldErrors(c.found, path)
	if c.full {
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, tooManyErrors))
	}
	return errs
}

// rules evaluates the rules, unless errs contains an error that makes this pointless.
func (s *Schema) rules(ctx context.Context, obj, old map[string]any, errs field.ErrorList, r *ratchet) Verdict {
	if !s.root.is(hasRules) {
		return Verdict{Errors: errs}
	}
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return Verdict{Errors: append(errs, field.Invalid(nil, nil,
				"some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"))}
		}
	}
	e := evaluator{ctx: ctx, timed: s.timing.Evaluation, budget: celconfig.RuntimeCELCostBudget}
	root := subject{node: s.root, value: obj}
	if old != nil {
		root.old = old
		root.lineage.own = &pair{ratchet: r, node: s.root, value: obj, old: old}
	}
	e.value(root)
	sortByField(e.errs)
	return Verdict{Errors: append(errs, e.errs...), Warnings: e.warnings}
}
