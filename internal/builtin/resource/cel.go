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

	"github.com/kanzen-io/kanzen/internal/rules"
)

// selectors compiles device selector expressions to check their types and estimate their cost.
type selectors struct {
	device *apiservercel.DeclType
	// envs is slow to build, so it is built on first use.
	envs func() (*environment.EnvSet, error)
}

func newSelectors() *selectors {
	s := &selectors{device: deviceType()}
	s.envs = sync.OnceValues(func() (*environment.EnvSet, error) {
		return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(environment.VersionedOptions{
			IntroducedVersion: version.MajorMinor(1, 0),
			EnvOptions: []cel.EnvOption{
				ext.Bindings(ext.BindingsVersion(0)),
				cel.Variable("device", s.device.CelType()),
			},
			DeclTypes: []*apiservercel.DeclType{s.device},
		})
	})
	return s
}

// deviceType returns the type of "device". It includes sizes, for the cost estimate.
func deviceType() *apiservercel.DeclType {
	sized := func(t *apiservercel.DeclType, n int64) *apiservercel.DeclType {
		out := *t
		out.MaxElements = n
		return &out
	}
	const entries = resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice
	domain := sized(apiservercel.StringType, resourcev1.DeviceMaxDomainLength)
	id := sized(apiservercel.StringType, resourcev1.DeviceMaxIDLength)
	byName := func(t *apiservercel.DeclType) *apiservercel.DeclType {
		return apiservercel.NewMapType(domain, apiservercel.NewMapType(id, t, entries), entries)
	}
	fields := map[string]*apiservercel.DeclField{}
	for name, t := range map[string]*apiservercel.DeclType{
		"driver":                   sized(apiservercel.StringType, resourcev1.DriverNameMaxLength),
		"allowMultipleAllocations": sized(apiservercel.BoolType, 1),
		"attributes":               byName(sized(apiservercel.AnyType, resourcev1.DeviceAttributeMaxValueLength)),
		"capacity":                 byName(apiservercel.QuantityDeclType),
	} {
		fields[name] = apiservercel.NewDeclField(name, t, true, nil, nil)
	}
	return apiservercel.NewObjectType("kubernetes.DRADevice", fields)
}

// check reports an expression that does not compile, is not boolean, or may cost too much. stored means that it is in
// the stored object.
func (s *selectors) check(e rules.Errors, expression string, stored bool) {
	envs, err := s.envs()
	if err != nil {
		e.AddError(field.InternalError(e.Path, err))
		return
	}
	mode := environment.NewExpressions
	if stored {
		mode = environment.StoredExpressions
	}
	env, err := envs.Env(mode)
	if err != nil {
		e.AddError(field.InternalError(e.Path, err))
		return
	}
	ast, issues := env.Compile(expression)
	if issues != nil {
		e.Invalid(expression, "compilation failed: "+issues.String())
		return
	}
	if t := ast.OutputType(); t != cel.BoolType && t != cel.AnyType {
		e.Invalid(expression, "must evaluate to bool or the unknown type, not "+t.String())
		return
	}
	if _, err := env.Program(ast); err != nil {
		e.Invalid(expression, "program instantiation failed: "+err.Error())
		return
	}
	cost, err := env.EstimateCost(ast, &library.CostEstimator{SizeEstimator: s})
	if err != nil {
		e.AddError(field.InternalError(e.Path, err))
		return
	}
	if cost.Max > resourcev1.CELSelectorExpressionMaxCost {
		e.Forbidden("too complex, may cost more than the limit")
	}
}

// EstimateSize implements checker.CostEstimator by the sizes in the type.
func (s *selectors) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	path := element.Path()
	if len(path) == 0 || path[0] != "device" {
		return nil
	}
	t := s.device
	for _, step := range path[1:] {
		var next *apiservercel.DeclType
		switch f := t.Fields[step]; {
		case step == "@items" || step == "@values":
			next = t.ElemType
		case step == "@keys":
			next = t.KeyType
		case f != nil:
			next = f.Type
		}
		if next == nil {
			return nil
		}
		t = next
	}
	return &checker.SizeEstimate{Min: 0, Max: uint64(t.MaxElements)}
}

// EstimateCallCost implements checker.CostEstimator.
func (s *selectors) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
