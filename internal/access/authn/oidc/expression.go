package oidc

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Compiler compiles the expressions of a configuration. Creating one takes milliseconds, so all expressions of a
// configuration share it.
type Compiler struct{ claims, user *cel.Env }

// NewCompiler creates the CEL environments: one has the variable "claims", the token's claims; the other "user", the
// user they map to.
func NewCompiler() (*Compiler, error) {
	claimsType := apiservercel.NewMapType(apiservercel.StringType, apiservercel.AnyType, -1)
	claimsEnv, err := envWith("claims", claimsType)
	if err != nil {
		return nil, err
	}
	strings := apiservercel.NewListType(apiservercel.StringType, -1)
	fields := map[string]*apiservercel.DeclField{}
	for name, t := range map[string]*apiservercel.DeclType{
		"username": apiservercel.StringType, "uid": apiservercel.StringType, "groups": strings,
		"extra": apiservercel.NewMapType(apiservercel.StringType, strings, -1),
	} {
		fields[name] = apiservercel.NewDeclField(name, t, false, nil, nil)
	}
	userEnv, err := envWith("user", apiservercel.NewObjectType("kubernetes.UserInfo", fields))
	return &Compiler{claims: claimsEnv, user: userEnv}, err
}

func envWith(variable string, t *apiservercel.DeclType) (*cel.Env, error) {
	set, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions:        []cel.EnvOption{cel.Variable(variable, t.CelType())},
		DeclTypes:         []*apiservercel.DeclType{t},
	})
	if err != nil {
		return nil, err
	}
	return set.Env(environment.StoredExpressions)
}

// expression is a compiled expression; only some uses set key or message.
type expression struct {
	text, key, message string
	ast                *cel.Ast
	program            cel.Program
}

// compile compiles an expression with the given result type; the dynamic type accepts any.
func compile(env *cel.Env, text string, result *cel.Type, at *field.Path) (*expression, *field.Error) {
	ast, issues := env.Compile(text)
	if issues != nil {
		return nil, field.Invalid(at, text, "compilation failed: "+issues.String())
	}
	if result != cel.AnyType && ast.OutputType() != result {
		return nil, field.Invalid(at, text, fmt.Sprintf("must evaluate to %v", result))
	}
	program, err := env.Program(ast)
	if err != nil {
		return nil, field.InternalError(at, fmt.Errorf("program instantiation failed: %w", err))
	}
	return &expression{text: text, ast: ast, program: program}, nil
}

func (e *expression) eval(ctx context.Context, variable string, v ref.Val) (ref.Val, error) {
	out, _, err := e.program.ContextEval(ctx, map[string]any{variable: v})
	if err != nil {
		return nil, fmt.Errorf("expression '%s' resulted in error: %w", e.text, err)
	}
	return out, nil
}

// uses reports whether an expression reads the claim.
func (e *expression) uses(claim string) bool {
	if e == nil {
		return false
	}
	isClaims := func(x celast.Expr) bool { return x.Kind() == celast.IdentKind && x.AsIdent() == "claims" }
	found := false
	celast.PreOrderVisit(e.ast.NativeRep().Expr(), celast.NewExprVisitor(func(x celast.Expr) {
		switch x.Kind() {
		case celast.SelectKind:
			found = found || isClaims(x.AsSelect().Operand()) && x.AsSelect().FieldName() == claim
		case celast.CallKind:
			c := x.AsCall()
			if c.FunctionName() == operators.OptSelect && len(c.Args()) == 2 && isClaims(c.Args()[0]) && c.Args()[1].Kind() == celast.LiteralKind {
				found = found || c.Args()[1].AsLiteral().Equal(types.String(claim)) == types.True
			}
		}
	}))
	return found
}

var errNotStrings = errors.New("expression must return a string or a list of strings")

// stringsOf converts a result that is a string or a list of strings. Null and empty results return nil.
func stringsOf(v ref.Val) ([]string, error) {
	var out []string
	switch v := v.(type) {
	case types.Null:
	case types.String:
		if v != "" {
			out = append(out, string(v))
		}
	case traits.Lister:
		for i := v.Iterator(); i.HasNext() == types.True; {
			s, ok := i.Next().(types.String)
			if !ok {
				return nil, errNotStrings
			}
			if s != "" {
				out = append(out, string(s))
			}
		}
	default:
		return nil, errNotStrings
	}
	return out, nil
}
