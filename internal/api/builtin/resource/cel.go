package resource

import (
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/ext"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// expressions compiles the expressions that select devices or derive attributes of them, to check their types and
// estimate their cost.
type expressions struct {
	device *apiservercel.DeclType
	value  *apiservercel.DeclType // of an attribute
	lists  bool                   // attributes may be lists
	// envs is slow to build, so it is built on first use.
	envs func() (*environment.EnvSet, error)
}

func newExpressions(gates features.Set) *expressions {
	x := &expressions{lists: gates.Enabled(features.DRAListTypeAttributes)}
	x.value = sized(apiservercel.AnyType, resourcev1.DeviceAttributeMaxValueLength)
	options := []cel.EnvOption{ext.Bindings(ext.BindingsVersion(0))}
	if x.lists {
		// With this type, macros that go through a list are allowed.
		x.value = sized(apiservercel.DynType, max(resourcev1.DeviceAttributeMaxValueLength, resourcev1.ResourceSliceMaxAttributeValuesPerDevice))
		options = append(options, library.IncludesOption())
	}
	x.device = deviceType(x.value, gates.Enabled(features.DRAConsumableCapacity))
	options = append(options, cel.Variable("device", x.device.CelType()))
	x.envs = sync.OnceValues(func() (*environment.EnvSet, error) {
		return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(environment.VersionedOptions{
			IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: options, DeclTypes: []*apiservercel.DeclType{x.device},
		})
	})
	return x
}

func sized(t *apiservercel.DeclType, n int64) *apiservercel.DeclType {
	out := *t
	out.MaxElements = n
	return &out
}

// deviceType returns the type of "device". It includes sizes, for the cost estimate.
func deviceType(value *apiservercel.DeclType, shared bool) *apiservercel.DeclType {
	const entries = resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice
	domain := sized(apiservercel.StringType, resourcev1.DeviceMaxDomainLength)
	id := sized(apiservercel.StringType, resourcev1.DeviceMaxIDLength)
	byName := func(t *apiservercel.DeclType) *apiservercel.DeclType {
		return apiservercel.NewMapType(domain, apiservercel.NewMapType(id, t, entries), entries)
	}
	types := map[string]*apiservercel.DeclType{
		"driver":     sized(apiservercel.StringType, resourcev1.DriverNameMaxLength),
		"attributes": byName(value),
		"capacity":   byName(apiservercel.QuantityDeclType),
	}
	if shared {
		types["allowMultipleAllocations"] = sized(apiservercel.BoolType, 1)
	}
	fields := map[string]*apiservercel.DeclField{}
	for name, t := range types {
		fields[name] = apiservercel.NewDeclField(name, t, true, nil, nil)
	}
	return apiservercel.NewObjectType("kubernetes.DRADevice", fields)
}

// selector reports an expression that does not compile, is not boolean, or may cost too much.
func (x *expressions) selector(e rules.Errors, expression string) {
	x.compile(e, expression, resourcev1.CELSelectorExpressionMaxCost, func(t *cel.Type) string {
		if t.IsExactType(cel.BoolType) || t.IsExactType(x.value.CelType()) {
			return ""
		}
		return "bool or the unknown type"
	})
}

// attribute reports an expression that does not compile, does not give a value of an attribute, or may cost too much. It
// returns the cost.
func (x *expressions) attribute(e rules.Errors, expression string) uint64 {
	return x.compile(e, expression, resourcev1.DeviceClaimDerivedAttributeCELMaxCost, func(t *cel.Type) string {
		list := x.lists && t.TypeName() == "list" && len(t.Parameters()) == 1
		if isScalar(t) || list && isScalar(t.Parameters()[0]) {
			return ""
		}
		return "a string, integer, boolean or semantic version"
	})
}

func isScalar(t *cel.Type) bool {
	for _, scalar := range []*cel.Type{cel.BoolType, cel.IntType, cel.StringType, cel.AnyType, cel.DynType, apiservercel.SemverType} {
		if t.IsExactType(scalar) {
			return true
		}
	}
	return false
}

// compile reports what is wrong with an expression, and returns its cost. wanted says which type it should have, if it has
// another.
func (x *expressions) compile(e rules.Errors, expression string, limit uint64, wanted func(*cel.Type) string) (cost uint64) {
	if len(expression) > resourcev1.CELSelectorExpressionMaxLength {
		e.TooLong(resourcev1.CELSelectorExpressionMaxLength)
		return 0
	}
	envs, err := x.envs()
	if err != nil {
		e.AddError(field.InternalError(e.Path(), err))
		return 0
	}
	env, err := envs.Env(environment.NewExpressions)
	if err != nil {
		e.AddError(field.InternalError(e.Path(), err))
		return 0
	}
	ast, issues := env.Compile(expression)
	if issues != nil {
		e.Invalid(expression, "compilation failed: "+issues.String())
		return 0
	}
	if t := wanted(ast.OutputType()); t != "" {
		e.Invalid(expression, "must evaluate to "+t+", not "+ast.OutputType().String())
		return 0
	}
	if _, err := env.Program(ast); err != nil {
		e.Invalid(expression, "program instantiation failed: "+err.Error())
		return 0
	}
	estimate, err := env.EstimateCost(ast, &library.CostEstimator{SizeEstimator: x})
	if err != nil {
		e.AddError(field.InternalError(e.Path(), err))
		return 0
	}
	if estimate.Max > limit {
		e.Forbidden("too complex, may cost more than the limit")
	}
	return estimate.Max
}

// EstimateSize implements checker.CostEstimator by the sizes in the type.
func (x *expressions) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	path := element.Path()
	if len(path) == 0 || path[0] != "device" {
		return nil
	}
	t := x.device
	for _, step := range path[1:] {
		var next *apiservercel.DeclType
		switch f := t.Fields[step]; {
		case step == "@items" || step == "@values":
			next = t.ElemType
		case step == "@keys":
			next = t.KeyType
		case f != nil:
			next = f.Type
		case t.ElemType == x.value: // the name of an attribute
			next = x.value
		}
		if next == nil {
			return nil
		}
		t = next
	}
	return &checker.SizeEstimate{Min: 0, Max: uint64(t.MaxElements)}
}

// EstimateCallCost implements checker.CostEstimator.
func (x *expressions) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
