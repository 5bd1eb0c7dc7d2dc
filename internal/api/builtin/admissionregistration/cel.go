package admissionregistration

import (
	"fmt"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	celenv "github.com/kanzen-io/kanzen/internal/object/cel"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// compiler compiles expressions to check their types. Its environments are slow to build, so they are built on first
// use.
type compiler struct {
	// variables is the type of the policy's variables; nil: none. It grows as they are compiled, so that each sees the
	// ones before it.
	variables *apiservercel.DeclType

	mu   sync.Mutex
	envs map[celenv.Scope]*environment.EnvSet // guarded by mu
}

func newCompiler() *compiler { return &compiler{envs: map[celenv.Scope]*environment.EnvSet{}} }

// forPolicy returns a compiler for the expressions of one policy with variables.
func forPolicy() *compiler {
	c := newCompiler()
	c.variables = apiservercel.NewObjectType("kubernetes.variables", map[string]*apiservercel.DeclField{})
	return c
}

// Result types of expressions.
var (
	toBool       = []*cel.Type{cel.BoolType}
	toString     = []*cel.Type{cel.StringType}
	toStringNull = []*cel.Type{cel.StringType, cel.NullType}
	toAnything   = []*cel.Type{cel.AnyType, cel.DynType}
	toObject     = []*cel.Type{cel.ObjectType("Object")}
	toPatch      = []*cel.Type{cel.ListType(cel.ObjectType("JSONPatch"))}
)

// check reports an expression that does not compile, or that has none of the result types. stored means that the
// expression is in the stored object: it may use features that later versions removed.
func (c *compiler) check(e rules.Errors, expression string, s celenv.Scope, results []*cel.Type, stored bool) *cel.Type {
	envs, err := c.envsFor(s)
	if err != nil {
		e.AddError(field.InternalError(e.Path(), err))
		return nil
	}
	mode := environment.NewExpressions
	if stored {
		mode = environment.StoredExpressions
	}
	env, err := envs.Env(mode)
	if err != nil {
		e.AddError(field.InternalError(e.Path(), err))
		return nil
	}
	ast, issues := env.Compile(expression)
	if issues != nil {
		e.Invalid(expression, "compilation failed: "+issues.String())
		return nil
	}
	result := ast.OutputType()
	if !slices.ContainsFunc(results, func(t *cel.Type) bool {
		return result.IsExactType(t) || cel.AnyType.IsExactType(t)
	}) {
		e.Invalid(expression, fmt.Sprintf("must evaluate to one of %v but got %v", results, result))
		return nil
	}
	if _, err := env.Program(ast); err != nil {
		e.Invalid(expression, "program instantiation failed: "+err.Error())
		return nil
	}
	return result
}

// define compiles a variable of the policy, so that later expressions can use it.
func (c *compiler) define(e rules.Errors, name, expression string, s celenv.Scope, stored bool) {
	t := celenv.DeclType(c.check(e, expression, s, toAnything, stored))
	c.variables.Fields[name] = apiservercel.NewDeclField(name, t, true, nil, nil)
}

func (c *compiler) envsFor(s celenv.Scope) (*environment.EnvSet, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if envs := c.envs[s]; envs != nil {
		return envs, nil
	}
	envs, err := celenv.NewEnvironments(s, c.variables)
	if err != nil {
		return nil, err
	}
	c.envs[s] = envs
	return envs, nil
}
