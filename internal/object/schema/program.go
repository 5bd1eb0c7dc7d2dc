package schema

import (
	"fmt"
	"sync"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/kanzen-io/kanzen/internal/object/cel"
)

// scopeKey identifies the variables that expressions about values of a schema see.
type scopeKey struct {
	schema   digest
	optional bool // oldSelf is optional
}

// scope is the environment of these expressions, created on first use. It is larger than a program, so the expressions
// of a schema share it.
type scope struct {
	node     *node
	optional bool
	once     sync.Once
	env      *celgo.Env
	err      error
}

func (s *scope) environment() (*celgo.Env, error) {
	s.once.Do(func() { s.env, s.err = s.extend() })
	return s.env, s.err
}

// extend creates the environment. Its base is that of stored expressions, because their text was validated when it was
// written.
func (s *scope) extend() (*celgo.Env, error) {
	env := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).StoredExpressionsEnv()
	p, err := newProvider(env.CELTypeProvider())
	if err != nil {
		return nil, fmt.Errorf("types of expressions: %w", err)
	}
	self := p.typeOf(s.node.asSeen(), s.node.is(embedded|isRoot))
	old := self
	if s.optional {
		old = types.NewOptionalType(self)
	}
	options, err := cel.Bound(env)
	if err != nil {
		return nil, fmt.Errorf("bound functions of expressions: %w", err)
	}
	return env.Extend(append(options, celgo.CustomTypeProvider(p), celgo.CustomTypeAdapter(p),
		celgo.Variable("self", self), celgo.Variable("oldSelf", old))...)
}

// programKey identifies an expression. Rules with equal keys share a program.
type programKey struct {
	scope   scopeKey
	text    string
	message bool // the expression returns a message
}

// program is an expression, compiled on first use.
type program struct {
	text    string
	message bool
	scope   *scope
	timed   func() (end func()) // Timing.Compilation
	once    sync.Once
	celgo.Program
	usesOld bool
	err     error
}

// compiled compiles p if necessary and returns it.
func (p *program) compiled() *program {
	p.once.Do(func() {
		defer begin(p.timed)()
		p.err = p.compile()
	})
	return p
}

func (p *program) compile() error {
	env, err := p.scope.environment()
	if err != nil {
		return err
	}
	what, instantiation, must := "", "program ", "cel expression must evaluate to a bool"
	want := celgo.BoolType
	if p.message {
		what, instantiation, must = "messageExpression ", "messageExpression ", "messageExpression must evaluate to a string"
		want = celgo.StringType
	}
	ast, issues := env.Compile(p.text)
	if issues != nil {
		return invalid(what + "compilation failed: " + issues.String())
	}
	if ast.OutputType() != want {
		return invalid(must)
	}
	for _, ref := range ast.NativeRep().ReferenceMap() {
		p.usesOld = p.usesOld || ref.Name == "oldSelf"
	}
	p.Program, err = env.Program(ast,
		celgo.CostLimit(celconfig.PerCallLimit),
		celgo.CostTracking(&library.CostEstimator{}), // of the actual evaluation, which needs no size estimates
		celgo.InterruptCheckFrequency(celconfig.CheckFrequency),
	)
	if err != nil {
		return invalid(instantiation + "instantiation failed: " + err.Error())
	}
	return nil
}

func invalid(detail string) error {
	return &apiservercel.Error{Type: apiservercel.ErrorTypeInvalid, Detail: detail}
}

// Sizes estimates the maximum size of the parts of a value of type Root.
type Sizes struct{ Root *apiservercel.DeclType }

// EstimateSize implements checker.CostEstimator.
func (s Sizes) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	path := element.Path()
	if len(path) == 0 {
		return nil
	}
	t := s.Root
	for _, name := range path[1:] {
		switch name {
		case "@items", "@values":
			t = t.ElemType
		case "@keys":
			t = t.KeyType
		default:
			f := t.Fields[name]
			if f == nil {
				return nil
			}
			t = f.Type
		}
		if t == nil {
			return nil
		}
	}
	return &checker.SizeEstimate{Min: 0, Max: uint64(t.MaxElements)}
}

// EstimateCallCost implements checker.CostEstimator.
func (s Sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
