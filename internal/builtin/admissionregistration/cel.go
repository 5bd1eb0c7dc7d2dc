package admissionregistration

import (
	"fmt"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	celcommon "k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/apiserver/pkg/cel/mutation"

	"github.com/kanzen-io/kanzen/internal/builtin/rules"
)

// scope says which variables an expression sees beside object, oldObject,
// request and namespaceObject.
type scope struct {
	params     bool
	authorizer bool
	patch      bool // the types that mutations are made of
}

// compiler compiles expressions to see whether they are well typed. Its
// environments take a while to build and are built on first use.
type compiler struct {
	// variables is the type of the policy's own variables; nil: none. It grows
	// as they are compiled, so that each sees those before it.
	variables *apiservercel.DeclType

	mu   sync.Mutex
	envs map[scope]*environment.EnvSet // guarded by mu
}

func newCompiler() *compiler { return &compiler{envs: map[scope]*environment.EnvSet{}} }

// forPolicy returns a compiler for the expressions of one policy that has
// variables of its own.
func forPolicy() *compiler {
	c := newCompiler()
	c.variables = apiservercel.NewObjectType("kubernetes.variables", map[string]*apiservercel.DeclField{})
	return c
}

// What expressions may evaluate to.
var (
	toBool       = []*cel.Type{cel.BoolType}
	toString     = []*cel.Type{cel.StringType}
	toStringNull = []*cel.Type{cel.StringType, cel.NullType}
	toAnything   = []*cel.Type{cel.AnyType, cel.DynType}
	toObject     = []*cel.Type{cel.ObjectType("Object")}
	toPatch      = []*cel.Type{cel.ListType(cel.ObjectType("JSONPatch"))}
)

// check reports an expression that does not compile, or that is of none of the
// types it may have. stored says that the expression is in the stored object
// already: what a later version took away stays there.
func (c *compiler) check(e rules.Errors, expression string, s scope, results []*cel.Type, stored bool) *cel.Type {
	envs, err := c.envsFor(s)
	if err != nil {
		e.AddError(field.InternalError(e.Path, err))
		return nil
	}
	mode := environment.NewExpressions
	if stored {
		mode = environment.StoredExpressions
	}
	env, err := envs.Env(mode)
	if err != nil {
		e.AddError(field.InternalError(e.Path, err))
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

// define compiles a variable of the policy and lets later expressions see it.
func (c *compiler) define(e rules.Errors, name, expression string, s scope, stored bool) {
	t := declType(c.check(e, expression, s, toAnything, stored))
	c.variables.Fields[name] = apiservercel.NewDeclField(name, t, true, nil, nil)
}

func (c *compiler) envsFor(s scope) (*environment.EnvSet, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if envs := c.envs[s]; envs != nil {
		return envs, nil
	}
	envs, err := c.build(s)
	if err != nil {
		return nil, fmt.Errorf("build CEL environment: %w", err)
	}
	c.envs[s] = envs
	return envs, nil
}

func (c *compiler) build(s scope) (*environment.EnvSet, error) {
	request, namespace := requestType(), namespaceType()
	o := environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions: []cel.EnvOption{
			cel.Variable("object", cel.DynType),
			cel.Variable("oldObject", cel.DynType),
			cel.Variable("namespaceObject", namespace.CelType()),
			cel.Variable("request", request.CelType()),
		},
		DeclTypes: []*apiservercel.DeclType{namespace, request},
	}
	if s.params {
		o.EnvOptions = append(o.EnvOptions, cel.Variable("params", cel.DynType))
	}
	if s.authorizer {
		o.EnvOptions = append(o.EnvOptions,
			cel.Variable("authorizer", library.AuthorizerType),
			cel.Variable("authorizer.requestResource", library.ResourceCheckType))
	}
	if c.variables != nil {
		o.EnvOptions = append(o.EnvOptions, cel.Variable("variables", c.variables.CelType()))
		o.DeclTypes = append(o.DeclTypes, c.variables)
	}
	envs, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(o, environment.StrictCostOpt)
	if err != nil || !s.patch {
		return envs, err
	}
	return envs.Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions: []cel.EnvOption{
			celcommon.ResolverEnvOption(&mutation.DynamicTypeResolver{}),
			environment.UnversionedLib(library.JSONPatch),
		},
	})
}

// declType is the declaration of a type that compilation found.
func declType(t *cel.Type) *apiservercel.DeclType {
	if t == nil {
		return apiservercel.DynType
	}
	for _, d := range []*apiservercel.DeclType{
		apiservercel.AnyType, apiservercel.BoolType, apiservercel.BytesType, apiservercel.DoubleType,
		apiservercel.DurationType, apiservercel.IntType, apiservercel.NullType, apiservercel.StringType,
		apiservercel.TimestampType, apiservercel.UintType,
	} {
		if d.CelType() == t {
			return d
		}
	}
	if t.HasTrait(traits.ContainerType) && t.HasTrait(traits.IndexerType) {
		switch p := t.Parameters(); len(p) {
		case 1:
			return apiservercel.NewListType(declType(p[0]), -1)
		case 2:
			return apiservercel.NewMapType(declType(p[0]), declType(p[1]), -1)
		}
	}
	return apiservercel.DynType
}

// object declares an object type by its fields. Names that end in "?" need not
// be there.
func object(name string, fields map[string]*apiservercel.DeclType) *apiservercel.DeclType {
	out := make(map[string]*apiservercel.DeclField, len(fields))
	for n, t := range fields {
		required := true
		if n[len(n)-1] == '?' {
			n, required = n[:len(n)-1], false
		}
		out[n] = apiservercel.NewDeclField(n, t, required, nil, nil)
	}
	return apiservercel.NewObjectType(name, out)
}

// requestType is the type of "request": the admission request.
func requestType() *apiservercel.DeclType {
	text := apiservercel.StringType
	list := apiservercel.NewListType(text, -1)
	kind := object("kubernetes.GroupVersionKind", map[string]*apiservercel.DeclType{
		"group": text, "version": text, "kind": text,
	})
	resource := object("kubernetes.GroupVersionResource", map[string]*apiservercel.DeclType{
		"group": text, "version": text, "resource": text,
	})
	user := object("kubernetes.UserInfo", map[string]*apiservercel.DeclType{
		"username?": text, "uid?": text, "groups?": list, "extra?": apiservercel.NewMapType(text, list, -1),
	})
	return object("kubernetes.AdmissionRequest", map[string]*apiservercel.DeclType{
		"kind": kind, "resource": resource, "subResource?": text,
		"requestKind": kind, "requestResource": resource, "requestSubResource?": text,
		"name": text, "namespace?": text, "operation": text, "userInfo": user,
		"dryRun?": apiservercel.BoolType, "options?": apiservercel.DynType,
	})
}

// namespaceType is the type of "namespaceObject".
func namespaceType() *apiservercel.DeclType {
	text, number, moment := apiservercel.StringType, apiservercel.IntType, apiservercel.TimestampType
	list, dict := apiservercel.NewListType(text, -1), apiservercel.NewMapType(text, text, -1)
	condition := object("kubernetes.NamespaceCondition", map[string]*apiservercel.DeclType{
		"status": text, "type": text, "lastTransitionTime": moment, "message": text, "reason": text,
	})
	return object("kubernetes.Namespace", map[string]*apiservercel.DeclType{
		"metadata": object("kubernetes.NamespaceMetadata", map[string]*apiservercel.DeclType{
			"name": text, "generateName": text, "namespace": text, "labels": dict, "annotations": dict,
			"UID": text, "creationTimestamp": moment, "deletionGracePeriodSeconds": number,
			"deletionTimestamp": moment, "generation": number, "resourceVersion": text, "finalizers": list,
		}),
		"spec": object("kubernetes.NamespaceSpec", map[string]*apiservercel.DeclType{"finalizers": list}),
		"status": object("kubernetes.NamespaceStatus", map[string]*apiservercel.DeclType{
			"conditions": apiservercel.NewListType(condition, -1), "phase": text,
		}),
	})
}
