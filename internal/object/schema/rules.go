package schema

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/common"
)

// rule is one of a schema's x-kubernetes-validations.
type rule struct {
	text, message     string
	messageExpression string
	fieldPath         string // normalized; "": the value itself
	reason            apiextensionsv1.FieldValueErrorReason
	optional          bool     // optionalOldSelf
	program           *program // nil: the rule is blank
	messageProgram    *program // nil: there is no messageExpression
}

func newRule(r *apiextensionsv1.ValidationRule, p *props) *rule {
	out := &rule{
		text: r.Rule, message: r.Message, messageExpression: r.MessageExpression,
		optional: r.OptionalOldSelf != nil && *r.OptionalOldSelf,
	}
	if r.Reason != nil {
		out.reason = *r.Reason
	}
	if r.FieldPath != "" {
		if path, _, err := LookUp(r.FieldPath, p, true); err == nil {
			out.fieldPath = path.String()
		}
	}
	return out
}

// append adds r's content to the input of n's digest.
func (r *rule) append(b []byte) []byte {
	b = appendTexts(append(b, 'r'), []string{r.text, r.message, r.messageExpression, r.fieldPath, string(r.reason)})
	return appendValue(b, r.optional)
}

// bind sets r's programs, which evaluate values of n.
func (r *rule) bind(c *Cache, d digest, n *node) {
	key := scopeKey{d, r.optional}
	in := c.scopes.get(key, func() *scope { return &scope{node: n, optional: r.optional} })
	get := func(text string, message bool) *program {
		return c.programs.get(programKey{key, text, message}, func() *program {
			return &program{text: text, message: message, scope: in, timed: c.timing.Compilation}
		})
	}
	if strings.TrimSpace(r.text) != "" {
		r.program = get(r.text, false)
	}
	if r.messageExpression != "" {
		r.messageProgram = get(r.messageExpression, true)
	}
}

// said returns the text that identifies r.
func (r *rule) said() string {
	if r.message != "" {
		return strings.TrimSpace(r.message)
	}
	return strings.TrimSpace(r.text)
}

// evaluator evaluates an object's rules.
type evaluator struct {
	ctx context.Context
	// budget is the remaining cost; below zero, evaluation stops.
	budget int64
	timed  func() (end func()) // Timing.Evaluation
	collector
	warnings []string
}

const outOfBudget = "validation failed due to running out of cost budget, no further validation rules will be run"

// subject is a value with rules.
type subject struct {
	node    *node
	value   any
	path    *field.Path
	old     any // the value of oldSelf, or nil
	lineage lineage
	// untyped: the schema around it gives it no type, as that of an object does not give its items one.
	untyped bool
}

// shows reports whether expressions can see a property of s. A property whose name they cannot express has its own rules
// wherever it is.
func (s subject) shows(p property) bool {
	if !s.untyped && s.node.shows(p) {
		return true
	}
	return s.untyped && !p.is(unreal) && !expressible(p.name)
}

// value evaluates the rules of a value and of its parts.
func (e *evaluator) value(s subject) {
	if s.value == nil || !s.node.is(hasRules) {
		return
	}
	if err := e.ctx.Err(); err != nil {
		e.end(field.InternalError(s.path, err))
		return
	}
	if len(s.node.rules) > 0 {
		e.rules(s)
	}
	if e.full() {
		e.budget = -1
	}
	if e.budget < 0 {
		return
	}
	switch v := s.value.(type) {
	case []any:
		e.items(s, v)
	case map[string]any:
		e.fields(s, v)
	}
}

func (e *evaluator) items(s subject, list []any) {
	n := s.node.items
	if n == nil || !n.is(hasRules) {
		return
	}
	old, _ := s.old.([]any)
	olds, untyped := s.node.oldItems(before{value: old}), s.untyped || s.node.types != isArray
	for i, v := range list {
		e.value(subject{n, v, s.path.Index(i), olds.of(v).value, s.lineage.item(i), untyped})
		if e.budget < 0 {
			return
		}
	}
}

func (e *evaluator) fields(s subject, obj map[string]any) {
	old, _ := s.old.(map[string]any)
	if n := s.node.extra; n != nil && n.is(hasRules) {
		untyped := s.untyped || s.node.types != isObject
		for name, v := range obj {
			e.value(subject{n, v, s.path.Key(name), old[name], s.lineage.field(name), untyped})
			if e.budget < 0 {
				return
			}
		}
	}
	for p, v := range s.node.fields(obj, hasRules) {
		if !s.shows(p) {
			continue
		}
		e.value(subject{p.node, v, s.path.Child(p.name), old[p.name], s.lineage.field(p.name), false})
		if e.budget < 0 {
			return
		}
	}
}

// end stops the evaluation with an error.
func (e *evaluator) end(err *field.Error) {
	e.add(err)
	e.budget = -1
}

// rules evaluates the rules of one value.
func (e *evaluator) rules(s subject) {
	defer begin(e.timed)()
	kind := s.node.asSeen().Type()
	if s.untyped || s.node.is(unreal) {
		e.add(field.Invalid(s.path, kind, "rule compiler initialization error: failed to convert to declType for CEL validation rules"))
		return
	}
	if e.budget == 0 {
		e.end(field.Invalid(s.path, kind, outOfBudget))
		return
	}
	seen := s.seen()
	act := &activation{self: common.UnstructuredToVal(s.value, seen)}
	for _, r := range s.node.rules {
		if r.program == nil {
			continue
		}
		p := r.program.compiled()
		if p.err != nil {
			e.add(field.Invalid(s.path, kind, fmt.Sprintf("rule compile error: %v", p.err)))
			continue
		}
		if p.usesOld {
			if s.old == nil && !r.optional {
				continue // there is no old value to compare with
			}
			act.setOld(s.old, seen, r.optional)
		}
		if e.rule(s, r, p, kind, act); e.budget < 0 {
			return
		}
	}
}

// rule evaluates one rule.
func (e *evaluator) rule(s subject, r *rule, p *program, kind string, act *activation) {
	result, details, err := p.ContextEval(e.ctx, act)
	if details == nil {
		e.end(field.InternalError(s.path, fmt.Errorf("runtime cost could not be calculated for validation rule: %v, no further validation rules will be run", r.said())))
		return
	}
	cost := details.ActualCost()
	if cost == nil {
		e.end(field.Invalid(s.path, kind, fmt.Sprintf("runtime cost could not be calculated for validation rule: %v, no further validation rules will be run", r.said())))
		return
	}
	if *cost > math.MaxInt64 || int64(*cost) > e.budget {
		e.end(field.Invalid(s.path, kind, outOfBudget))
		return
	}
	e.budget -= int64(*cost)
	switch {
	case err == nil:
		if result != types.True {
			e.refuse(s, r, p, kind, act)
		}
	case strings.HasPrefix(err.Error(), "no such overload"):
		e.add(field.Invalid(s.path, kind, fmt.Sprintf("'%v': call arguments did not match a supported operator, function or macro signature for rule: %v", err, r.said())))
	case strings.HasPrefix(err.Error(), "operation cancelled: actual cost limit exceeded"):
		e.end(field.Invalid(s.path, kind, fmt.Sprintf("'%v': no further validation rules will be run due to call cost exceeds limit for rule: %v", err, r.said())))
	default:
		e.add(field.Invalid(s.path, kind, fmt.Sprintf("%v evaluating rule: %v", err, r.said())))
	}
}

// refuse reports a value that breaks a rule, as a warning if the value is unchanged.
func (e *evaluator) refuse(s subject, r *rule, p *program, kind string, act *activation) {
	path, m := s.path, r.messageProgram
	if m != nil && m.compiled().err != nil {
		m = nil
	} else if r.fieldPath != "" { // kube-apiserver ignores it in the other case
		path = path.Child(r.fieldPath)
	}
	report := func(err *field.Error) {
		if !p.usesOld && s.lineage.unchanged() {
			if len(e.warnings) < maxErrors {
				e.warnings = append(e.warnings, err.Error())
			}
		} else {
			e.add(err)
		}
	}
	detail := r.said()
	if r.message == "" {
		detail = "failed rule: " + detail
	}
	if m != nil {
		text, err := e.message(r, m, s.messageVariables(m, act))
		if err != nil {
			if err.internal {
				report(field.InternalError(path, err))
			} else {
				report(field.Invalid(path, kind, err.Error()))
			}
			e.budget = -1
			return
		}
		if text != "" {
			detail = text
		}
	}
	var value any = s.value
	if kind == "object" || kind == "array" {
		value = field.OmitValueType{}
	}
	report(r.failure(path, value, detail))
}

// messageVariables returns the variables of a message expression. In it, oldSelf is the old value itself even if it is
// optional in the rule, and it is missing unless a rule of the same value uses it, as in kube-apiserver.
func (s *subject) messageVariables(m *program, act *activation) *activation {
	out := &activation{self: act.self, wasOld: act.wasOld}
	if !m.usesOld || s.old == nil {
		return out
	}
	for _, r := range s.node.rules {
		if p := r.program; p != nil && p.compiled().usesOld {
			out.setOld(s.old, s.seen(), false)
			break
		}
	}
	return out
}

// seen returns the schema of s as expressions see it.
func (s *subject) seen() common.Schema {
	v := s.node.asSeen()
	if s.node.is(embedded | isRoot) {
		return v.WithTypeAndObjectMeta()
	}
	return v
}

func (r *rule) failure(path *field.Path, value any, detail string) *field.Error {
	switch r.reason {
	case apiextensionsv1.FieldValueForbidden:
		return field.Forbidden(path, detail)
	case apiextensionsv1.FieldValueRequired:
		return field.Required(path, detail)
	case apiextensionsv1.FieldValueDuplicate:
		return field.Duplicate(path, value)
	}
	return field.Invalid(path, value, detail)
}

// activation holds the variables of an expression.
type activation struct {
	self, old ref.Val
	hasOld    bool
	wasOld    ref.Val // the old value, once converted
}

// setOld sets oldSelf.
func (a *activation) setOld(old any, seen common.Schema, optional bool) {
	a.old, a.hasOld = nil, optional
	if old != nil {
		if a.wasOld == nil {
			a.wasOld = common.UnstructuredToVal(old, seen)
		}
		a.old, a.hasOld = a.wasOld, true
	}
	if !optional {
		return
	}
	if old == nil {
		a.old = types.OptionalNone
	} else {
		a.old = types.OptionalOf(a.old)
	}
}

// ResolveName implements interpreter.Activation.
func (a *activation) ResolveName(name string) (any, bool) {
	switch name {
	case "self":
		return a.self, true
	case "oldSelf":
		return a.old, a.hasOld
	}
	return nil, false
}

// Parent implements interpreter.Activation.
func (a *activation) Parent() interpreter.Activation { return nil }
