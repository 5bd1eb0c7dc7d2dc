package cel

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/lazy"
)

// Inputs gives the variables of expressions, by name. Each is requested when an
// expression first needs it, from one goroutine.
type Inputs interface {
	// Input returns the value of a variable; nil is null. An error becomes the
	// expression's error.
	Input(name Name) (any, error)
}

// Name is the name of a variable that all or some scopes have.
type Name string

// The variables.
const (
	ObjectInput          Name = objectName
	OldObjectInput       Name = oldObjectName
	ParamsInput          Name = paramsName
	RequestInput         Name = requestName
	NamespaceInput       Name = namespaceName
	AuthorizerInput      Name = authorizerName
	RequestResourceInput Name = requestResourceName
)

// Variable is a variable of a policy. Its expression is evaluated when it is
// first needed.
type Variable struct {
	Name    string
	Program *Program
}

// variablesType is the type of the map of a policy's variables.
var variablesType = apiservercel.NewObjectType("kubernetes.variables", nil)

// Run evaluates expressions one after the other, on the same inputs and within
// one budget. It is not safe for concurrent use.
type Run struct {
	ctx       context.Context
	inputs    Inputs
	variables *lazy.MapValue
	budget    int64
	// spent is the cost of variables that was not charged to an expression yet.
	spent int64
}

// NewRun begins a run with a budget.
func NewRun(ctx context.Context, in Inputs, variables []Variable, budget int64) *Run {
	r := &Run{ctx: ctx, inputs: in, budget: budget}
	if len(variables) > 0 {
		r.variables = lazy.NewMapValue(variablesType)
		for i := range variables {
			v := &variables[i]
			r.variables.Append(v.Name, func(*lazy.MapValue) ref.Val { return r.variable(v) })
		}
	}
	return r
}

// Budget returns the rest of the budget.
func (r *Run) Budget() int64 { return r.budget }

// Eval evaluates an expression. err is the expression's own error; end ends the
// run: its budget is used up, and nothing more can be evaluated.
func (r *Run) Eval(p *Program) (v ref.Val, err, end error) {
	if p.err != nil {
		return nil, &apiservercel.Error{Type: apiservercel.ErrorTypeInvalid, Detail: fmt.Sprintf("compilation error: %v", p.err), Cause: p.err}, nil
	}
	v, details, err := p.program.ContextEval(r.ctx, activation{r})
	cost := r.spent
	r.spent = 0
	if !r.charge(cost) {
		return nil, nil, outOfBudget()
	}
	if details == nil || details.ActualCost() == nil {
		return nil, nil, invalid(fmt.Sprintf("runtime cost could not be calculated for expression: %v, no further expression will be run", p.Expression), apiservercel.ErrOutOfBudget)
	}
	if !r.charge(toInt64(*details.ActualCost())) {
		return nil, nil, outOfBudget()
	}
	if err != nil {
		return nil, invalid(fmt.Sprintf("expression '%v' resulted in error: %v", p.Expression, err), nil), nil
	}
	return v, nil, nil
}

func (r *Run) charge(cost int64) bool {
	if cost > r.budget {
		r.budget = -1
		return false
	}
	r.budget -= cost
	return true
}

func outOfBudget() error {
	return invalid("validation failed due to running out of cost budget, no further validation rules will be run", apiservercel.ErrOutOfBudget)
}

// IsOutOfBudget says that an error means that the budget of a run is used up.
func IsOutOfBudget(err error) bool { return errors.Is(err, apiservercel.ErrOutOfBudget) }

// variable evaluates a variable; its cost is charged to the expression that
// uses it.
func (r *Run) variable(v *Variable) ref.Val {
	if v.Program.err != nil {
		return types.NewErr("composited variable %q fails to compile: %v", v.Name, v.Program.err)
	}
	got, details, err := v.Program.program.ContextEval(r.ctx, activation{r})
	if details == nil {
		return types.NewErr("unable to get evaluation details of variable %q", v.Name)
	}
	cost := details.ActualCost()
	if cost == nil {
		return types.NewErr("unable to calculate cost of variable %q", v.Name)
	}
	r.spent = toInt64(uint64(r.spent) + uint64(toInt64(*cost)))
	if err != nil {
		return types.NewErr("composited variable %q fails to evaluate: %v", v.Name, err)
	}
	return got
}

func toInt64(n uint64) int64 {
	if n > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(n)
}

// activation gives the interpreter the variables of a run.
type activation struct{ r *Run }

var _ cel.Activation = activation{}

// ResolveName is part of cel.Activation.
func (a activation) ResolveName(name string) (any, bool) {
	if name == variablesName {
		if a.r.variables == nil {
			return nil, false
		}
		return a.r.variables, true
	}
	v, err := a.r.inputs.Input(Name(name))
	if err != nil {
		return types.WrapErr(err), true
	}
	if v == nil && (name == authorizerName || name == requestResourceName) {
		return nil, false
	}
	return v, v != nil || known(name)
}

func known(name string) bool {
	switch Name(name) {
	case ObjectInput, OldObjectInput, ParamsInput, RequestInput, NamespaceInput:
		return true
	}
	return false
}

// Parent is part of cel.Activation.
func (activation) Parent() interpreter.Activation { return nil }
