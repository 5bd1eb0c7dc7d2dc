package schema

import (
	"errors"
	"fmt"
	"sync"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

// programKey names an expression about values of a schema. Rules of equal keys
// share a program.
type programKey struct {
	schema   digest
	text     string
	optional bool // whether oldSelf is optional
	message  bool // whether it makes a message
}

// program is an expression, compiled on first use.
type program struct {
	key  programKey
	node *node
	once sync.Once
	celgo.Program
	usesOld bool
	err     error
}

// compiled returns p after it was compiled.
func (p *program) compiled() *program {
	p.once.Do(func() { p.err = p.compile() })
	return p
}

func (p *program) compile() error {
	declared := common.SchemaDeclType(p.node.asSeen(), p.node.is(embedded|isRoot))
	if declared == nil {
		return errNoType
	}
	declared = declared.MaybeAssignTypeName("selfType")
	env, err := environmentOf(declared, p.key.optional)
	if err != nil {
		return err
	}
	what, want := "", celgo.BoolType
	if p.key.message {
		what, want = "messageExpression ", celgo.StringType
	}
	ast, issues := env.Compile(p.key.text)
	if issues != nil {
		return invalid(what + "compilation failed: " + issues.String())
	}
	if ast.OutputType() != want {
		if p.key.message {
			return invalid("messageExpression must evaluate to a string")
		}
		return invalid("cel expression must evaluate to a bool")
	}
	for _, ref := range ast.NativeRep().ReferenceMap() {
		p.usesOld = p.usesOld || ref.Name == "oldSelf"
	}
	p.Program, err = env.Program(ast,
		celgo.CostLimit(celconfig.PerCallLimit),
		celgo.CostTracking(&library.CostEstimator{SizeEstimator: Sizes{declared}}),
		celgo.InterruptCheckFrequency(celconfig.CheckFrequency),
	)
	if err != nil {
		return invalid(what + "instantiation failed: " + err.Error())
	}
	return nil
}

var errNoType = errors.New("failed to convert to declType for CEL validation rules")

func invalid(detail string) error {
	return &apiservercel.Error{Type: apiservercel.ErrorTypeInvalid, Detail: detail}
}

// environmentOf is that of stored expressions, as their text was checked when
// it came in.
func environmentOf(declared *apiservercel.DeclType, optional bool) (*celgo.Env, error) {
	env := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).StoredExpressionsEnv()
	provider := apiservercel.NewDeclTypeProvider(declared)
	provider.SetRecognizeKeywordAsFieldName(true) // as in self.namespace
	options, err := provider.EnvOptions(env.CELTypeProvider())
	if err != nil {
		return nil, fmt.Errorf("types of expressions: %w", err)
	}
	old := declared.CelType()
	if optional {
		old = types.NewOptionalType(old)
	}
	return env.Extend(append(options,
		celgo.Variable("self", declared.CelType()), celgo.Variable("oldSelf", old))...)
}

// Sizes estimates how large the parts of a value of type Root can be.
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
