package schema

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Verdict is what came of validating an object.
type Verdict struct {
	Errors field.ErrorList
	// Warnings are rules that the object breaks where an update may leave
	// that so, as it changes nothing there.
	Warnings []string
}

// ValidateCreate validates a new object. Found is what the caller found wrong
// with it (in metadata, say), which comes first in the result: where it is of a
// kind that keeps rules from making sense they are not evaluated.
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

// ValidateUpdate validates the new state of an object. What was wrong with the
// old one may stay so where nothing changes. Found is as for ValidateCreate.
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

// ValidateStatusUpdate is ValidateUpdate where only the status may change, and
// only it is held against its schema. obj is the whole object.
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

// resources reports what is wrong with embedded resources.
func (s *Schema) resources(obj map[string]any) field.ErrorList {
	var c collector
	c.resources(s.root, obj, nil)
	sortByField(c.errs)
	return c.errs
}

// lists reports what occurs twice in lists of type set and map.
func (s *Schema) lists(obj map[string]any) field.ErrorList {
	var c collector
	c.lists(s.root, obj, nil)
	sortByField(c.errs)
	return c.errs
}

// newRepetitions reports what occurs twice in lists of type set and map, unless
// something did before.
func (s *Schema) newRepetitions(obj, old map[string]any) field.ErrorList {
	errs := s.lists(obj)
	if len(errs) == 0 || len(s.lists(old)) > 0 {
		return nil
	}
	return errs
}

// conforms holds a value against n; path is where the value is.
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

// rules evaluates the rules, unless errs has what makes them pointless.
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
