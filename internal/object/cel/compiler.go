package cel

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"weak"

	"github.com/google/cel-go/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Result is the purpose of an expression, which determines the types that it
// may have.
type Result int

// Results of expressions.
const (
	Bool Result = iota
	String
	StringOrNull
	Anything
	Object // an apply configuration
	Patch  // a list of JSON patch operations
)

func (r Result) types() []*cel.Type {
	return [][]*cel.Type{
		{cel.BoolType}, {cel.StringType}, {cel.StringType, cel.NullType}, {cel.AnyType, cel.DynType},
		{cel.ObjectType("Object")}, {cel.ListType(cel.ObjectType("JSONPatch"))},
	}[r]
}

// Program is a compiled expression, or the error of its compilation. It is safe
// for concurrent use.
type Program struct {
	Expression string
	program    cel.Program
	err        error
}

// Err returns the error of the compilation, or nil.
func (p *Program) Err() error { return p.err }

// Compiler compiles expressions. It is safe for concurrent use.
type Compiler struct {
	mu       sync.Mutex
	envs     map[Scope]*cel.Env             // guarded by mu
	programs map[text]weak.Pointer[Program] // guarded by mu
}

// text is an expression with everything that its compilation depends on.
type text struct {
	scope      Scope
	result     Result
	expression string
}

// NewCompiler makes a compiler. Its environments are made on first use.
func NewCompiler() *Compiler {
	return &Compiler{envs: map[Scope]*cel.Env{}, programs: map[text]weak.Pointer[Program]{}}
}

// Compile compiles a stored expression, which may use functions that newer
// versions no longer accept in new expressions. The compiler keeps a program
// only while it is referenced elsewhere.
func (c *Compiler) Compile(expression string, s Scope, r Result) *Program {
	t := text{s, r, expression}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.programs[t].Value(); p != nil {
		return p
	}
	p := &Program{Expression: expression}
	p.program, p.err = c.compile(t)
	c.programs[t] = weak.Make(p)
	runtime.AddCleanup(p, c.forget, t)
	return p
}

func (c *Compiler) forget(t text) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.programs[t].Value() == nil { // it may have been compiled again
		delete(c.programs, t)
	}
}

// compile does the work; c.mu is held.
func (c *Compiler) compile(t text) (cel.Program, error) {
	env, err := c.env(t.scope)
	if err != nil {
		return nil, &apiservercel.Error{Type: apiservercel.ErrorTypeInternal, Detail: "unexpected error loading CEL environment: " + err.Error()}
	}
	ast, issues := env.Compile(t.expression)
	if issues != nil {
		return nil, invalid("compilation failed: "+issues.String(), apiservercel.NewCompilationError(issues))
	}
	if err := t.result.accepts(ast.OutputType(), t.scope.Variables); err != nil {
		return nil, err
	}
	p, err := env.Program(ast, cel.InterruptCheckFrequency(celconfig.CheckFrequency))
	if err != nil {
		return nil, &apiservercel.Error{Type: apiservercel.ErrorTypeInternal, Detail: "program instantiation failed: " + err.Error()}
	}
	return p, nil
}

// accepts refuses an expression of a wrong type. A policy's variables have no
// types here, unlike in the validation of the policy before it is stored, so an
// expression of dynamic type is accepted and checked when it is evaluated.
func (r Result) accepts(got *cel.Type, dynamic bool) error {
	if dynamic && got.IsExactType(cel.DynType) {
		return nil
	}
	var names []string
	for _, t := range r.types() {
		if got.IsExactType(t) || cel.AnyType.IsExactType(t) {
			return nil
		}
		names = append(names, t.String())
	}
	if len(names) == 1 {
		return invalid(fmt.Sprintf("must evaluate to %v but got %v", names[0], got), nil)
	}
	return invalid(fmt.Sprintf("must evaluate to one of [%v] but got %v", strings.Join(names, " "), got), nil)
}

func (c *Compiler) env(s Scope) (*cel.Env, error) {
	if env := c.envs[s]; env != nil {
		return env, nil
	}
	envs, err := NewEnvironments(s, nil)
	if err != nil {
		return nil, err
	}
	env, err := envs.Env(environment.StoredExpressions)
	if err != nil {
		return nil, err
	}
	c.envs[s] = env
	return env, nil
}

func invalid(detail string, cause error) *apiservercel.Error {
	return &apiservercel.Error{Type: apiservercel.ErrorTypeInvalid, Detail: detail, Cause: cause}
}
