package apiextensions

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/apiserver/pkg/cel/openapi"

	"github.com/kanzen-io/kanzen/internal/object/rules"
	"github.com/kanzen-io/kanzen/internal/object/schema"
)

// Limits of the estimated cost of one schema's expressions.
const (
	maxCostOfRule   = 10_000_000
	maxCostOfSchema = 100_000_000
)

// typed is the CEL type of a schema's values. A nil typed has no parts.
type typed struct {
	schema *props
	// declared creates the type; it is called only for schemas with rules, and for schemas within them.
	declared func() (*apiservercel.DeclType, error)
	hasRules bool    // it has rules, or a schema around it has
	times    *uint64 // maximum number of occurrences; nil: unlimited
}

func typedRoot(p *props) *typed {
	once := uint64(1)
	return &typed{schema: p, declared: declare(p, true), hasRules: len(p.XValidations) > 0, times: &once}
}

// declare returns a func that creates the type of a schema's values.
func declare(p *props, isResource bool) func() (*apiservercel.DeclType, error) {
	return sync.OnceValues(func() (*apiservercel.DeclType, error) {
		s, err := openAPI(p)
		if err != nil {
			return nil, err
		}
		t := openapi.SchemaDeclType(s, isResource)
		if t == nil {
			return nil, errors.New("schema has no type for expressions")
		}
		return t, nil
	})
}

// part returns the typed of a subschema; step derives its type from t's, if that is known.
func (t *typed) part(p *props, step func(*apiservercel.DeclType) (*apiservercel.DeclType, bool)) *typed {
	if t == nil {
		return nil
	}
	own := declare(p, p.XEmbeddedResource)
	out := &typed{schema: p, hasRules: t.hasRules || len(p.XValidations) > 0}
	out.declared = own
	if t.hasRules {
		out.declared = sync.OnceValues(func() (*apiservercel.DeclType, error) {
			parent, err := t.declared()
			if err != nil {
				return nil, err
			}
			if d, ok := step(parent); ok {
				return d, nil
			}
			return own()
		})
	}
	if n := elements(t.schema); n != nil && t.times != nil {
		times := multiply(*t.times, *n)
		out.times = &times
	}
	return out
}

func (t *typed) property(name string, p *props) *typed {
	return t.part(p, func(d *apiservercel.DeclType) (*apiservercel.DeclType, bool) {
		escaped, ok := apiservercel.Escape(name)
		if !ok || d.Fields[escaped] == nil {
			return nil, false
		}
		return d.Fields[escaped].Type, true
	})
}

func elementType(d *apiservercel.DeclType) (*apiservercel.DeclType, bool) { return d.ElemType, true }

func (t *typed) items(p *props) *typed  { return t.part(p, elementType) }
func (t *typed) values(p *props) *typed { return t.part(p, elementType) }

// elements returns the maximum number of values within a value of a schema; nil: unlimited.
func elements(p *props) *uint64 {
	limit := func(n *int64) *uint64 {
		if n == nil {
			return nil
		}
		u := uint64(max(*n, 0))
		return &u
	}
	switch {
	case p.Type == "array":
		return limit(p.MaxItems)
	case p.Type == "object" && p.AdditionalProperties != nil:
		return limit(p.MaxProperties)
	}
	one := uint64(1)
	return &one
}

func multiply(a, b uint64) uint64 {
	if a != 0 && b > math.MaxUint64/a {
		return math.MaxUint64
	}
	return a * b
}

// cost adds up the estimated cost of a schema's expressions.
type cost struct {
	total uint64
	high  []*field.Path // expressions that cost more than a hundredth of the limit
}

func (c *cost) add(n uint64, at *field.Path) {
	c.total += min(n, math.MaxUint64-c.total)
	if n >= maxCostOfSchema/100 && len(c.high) < 4 {
		c.high = append(c.high, at)
	}
}

func (c *cost) report(e rules.Errors) {
	if c.total <= maxCostOfSchema {
		return
	}
	for _, at := range c.high {
		e.Elsewhere(at).Forbidden("contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema")
	}
	e.Forbidden(excess("x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema", c.total, maxCostOfSchema))
}

func excess(what string, n, limit uint64) string {
	factor := fmt.Sprintf("%.1fx", float64(n)/float64(limit))
	if n/limit >= 100 {
		factor = "more than 100x"
	}
	return what + " exceeds budget by factor of " + factor +
		" (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
}

// compile validates the expressions of a schema's rules; e is at the rules' path.
func (w *walker) compile(p *props, at place, e rules.Errors) {
	to := w.expressions.Elsewhere(e.Path())
	d, err := at.typed.declared()
	if err == nil && d == nil {
		err = errors.New("no type for expressions")
	}
	if err != nil {
		to.AddError(field.InternalError(e.Path(), err))
		return
	}
	c := &ruleCompiler{walker: w, at: at, declared: d.MaybeAssignTypeName("selfType")}
	c.estimator = &library.CostEstimator{SizeEstimator: schema.Sizes{Root: d}}
	for i := range p.XValidations {
		r, e := &p.XValidations[i], to.Item(i)
		optional := r.OptionalOldSelf != nil && *r.OptionalOldSelf
		usesOld, ok := c.rule(r.Rule, optional, e.Field("rule"))
		if ok && r.MessageExpression != "" {
			c.message(r.MessageExpression, optional, e.Field("messageExpression"))
		}
		switch {
		case usesOld && at.uncorrelated != nil:
			e.Field("rule").Invalid(r.Rule, fmt.Sprintf("oldSelf cannot be used on the uncorrelatable portion of the schema within %v", at.uncorrelated))
		case !usesOld && r.OptionalOldSelf != nil:
			e.Field("optionalOldSelf").Invalid(optional, "may not be set if oldSelf is not used in rule")
		}
	}
}

// ruleCompiler compiles the expressions of the rules of one schema.
type ruleCompiler struct {
	*walker
	at        place
	declared  *apiservercel.DeclType
	estimator *library.CostEstimator
	envs      [2]*environment.EnvSet // index: whether oldSelf is optional
}

func (c *ruleCompiler) rule(text string, optional bool, e rules.Errors) (usesOld, ok bool) {
	ast, n, ok := c.expression(text, optional, c.rules, celgo.BoolType, e)
	if !ok {
		return false, false
	}
	if c.at.typed.times != nil {
		n = multiply(n, *c.at.typed.times)
	} else {
		n = multiply(n, uint64(celconfig.MaxRequestSizeBytes/(c.declared.MinSerializedSize+1)))
	}
	c.spend("estimated rule cost", n, e)
	for _, ref := range ast.NativeRep().ReferenceMap() {
		if ref.Name == "oldSelf" {
			return true, true
		}
	}
	return false, true
}

func (c *ruleCompiler) message(text string, optional bool, e rules.Errors) {
	if _, n, ok := c.expression(text, optional, c.messages, celgo.StringType, e); ok {
		c.spend("estimated messageExpression cost", n, e)
	}
}

func (c *ruleCompiler) spend(what string, n uint64, e rules.Errors) {
	if n > maxCostOfRule && !c.sameSchema {
		e.Forbidden(excess(what, n, maxCostOfRule))
	}
	c.cost.add(n, e.Path())
}

// expression compiles one expression and estimates its cost.
func (c *ruleCompiler) expression(text string, optional bool, stored sets.Set[string], want *celgo.Type, e rules.Errors) (*celgo.Ast, uint64, bool) {
	if strings.TrimSpace(text) == "" {
		return nil, 0, false
	}
	envs, err := c.env(optional)
	if err != nil {
		e.AddError(field.InternalError(e.Path(), err))
		return nil, 0, false
	}
	env := envs.NewExpressionsEnv()
	if stored.Has(text) {
		env = envs.StoredExpressionsEnv()
	}
	ast, issues := env.Compile(text)
	if issues != nil {
		e.Invalid(text, "compilation failed: "+issues.String())
		return nil, 0, false
	}
	if ast.OutputType() != want {
		e.Invalid(text, "must evaluate to a "+want.String())
		return nil, 0, false
	}
	if _, err := env.Program(ast, celgo.CostLimit(celconfig.PerCallLimit), celgo.CostTracking(c.estimator)); err != nil {
		e.Invalid(text, "program instantiation failed: "+err.Error())
		return nil, 0, false
	}
	n, err := env.EstimateCost(ast, c.estimator)
	if err != nil {
		e.Invalid(text, "cost estimation failed: "+err.Error())
		return nil, 0, false
	}
	return ast, n.Max, true
}

func (c *ruleCompiler) env(optional bool) (*environment.EnvSet, error) {
	i, old := 0, c.declared.CelType()
	if optional {
		i, old = 1, types.NewOptionalType(old)
	}
	if c.envs[i] != nil {
		return c.envs[i], nil
	}
	envs, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions: []celgo.EnvOption{
			celgo.Variable("self", c.declared.CelType()),
			celgo.Variable("oldSelf", old),
		},
		DeclTypes: []*apiservercel.DeclType{c.declared},
	})
	c.envs[i] = envs
	return envs, err
}
