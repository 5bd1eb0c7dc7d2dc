package cel

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	celcommon "k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/apiserver/pkg/cel/mutation"
)

// Scope says which variables an expression sees beside object, oldObject,
// request and namespaceObject.
type Scope struct {
	Params     bool
	Authorizer bool
	// Patch adds the types that mutations use.
	Patch bool
	// Variables adds the variables of a policy, without their types.
	Variables bool
}

// NewEnvironments makes the environments of a scope. variables (optional) is
// the type of a policy's variables: expressions can then use only declared
// ones. It takes some milliseconds.
func NewEnvironments(s Scope, variables *apiservercel.DeclType) (*environment.EnvSet, error) {
	request, namespace := RequestType(), NamespaceType()
	o := environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions: []cel.EnvOption{
			cel.Variable(objectName, cel.DynType),
			cel.Variable(oldObjectName, cel.DynType),
			cel.Variable(namespaceName, namespace.CelType()),
			cel.Variable(requestName, request.CelType()),
		},
		DeclTypes: []*apiservercel.DeclType{namespace, request},
	}
	if s.Params {
		o.EnvOptions = append(o.EnvOptions, cel.Variable(paramsName, cel.DynType))
	}
	if s.Authorizer {
		o.EnvOptions = append(o.EnvOptions,
			cel.Variable(authorizerName, library.AuthorizerType),
			cel.Variable(requestResourceName, library.ResourceCheckType))
	}
	switch {
	case variables != nil:
		o.EnvOptions = append(o.EnvOptions, cel.Variable(variablesName, variables.CelType()))
		o.DeclTypes = append(o.DeclTypes, variables)
	case s.Variables:
		o.EnvOptions = append(o.EnvOptions, cel.Variable(variablesName, cel.MapType(cel.StringType, cel.DynType)))
	}
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	bounds, err := Bound(base.StoredExpressionsEnv())
	if err != nil {
		return nil, fmt.Errorf("bound CEL functions: %w", err)
	}
	o.EnvOptions = append(o.EnvOptions, bounds...)
	envs, err := base.Extend(o, environment.StrictCostOpt)
	if err == nil && s.Patch {
		envs, err = envs.Extend(environment.VersionedOptions{
			IntroducedVersion: version.MajorMinor(1, 0),
			EnvOptions: []cel.EnvOption{
				celcommon.ResolverEnvOption(&mutation.DynamicTypeResolver{}),
				environment.UnversionedLib(library.JSONPatch),
			},
		})
	}
	if err != nil {
		return nil, fmt.Errorf("build CEL environment: %w", err)
	}
	return envs, nil
}

// TypedEnvironment is the environment in which a policy's expressions are
// checked against the types of objects and parameters (nil: unknown). hasParams
// says that the policy has parameters.
func TypedEnvironment(object, params *apiservercel.DeclType, hasParams bool, variables *apiservercel.DeclType) (*cel.Env, error) {
	request, namespace := RequestType(), NamespaceType()
	o := environment.VersionedOptions{IntroducedVersion: version.MajorMinor(1, 0)}
	declare := func(t *apiservercel.DeclType, names ...string) {
		of := cel.DynType
		if t != nil {
			of = t.CelType()
			o.DeclTypes = append(o.DeclTypes, t)
		}
		for _, n := range names {
			o.EnvOptions = append(o.EnvOptions, cel.Variable(n, of))
		}
	}
	declare(namespace, namespaceName)
	declare(request, requestName)
	declare(object, objectName, oldObjectName)
	if hasParams {
		declare(params, paramsName)
	}
	declare(variables, variablesName)
	o.EnvOptions = append(o.EnvOptions, cel.Variable(authorizerName, library.AuthorizerType))
	envs, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(o)
	if err != nil {
		return nil, err
	}
	return envs.Env(environment.StoredExpressions)
}

// The names of variables.
const (
	objectName          = "object"
	oldObjectName       = "oldObject"
	paramsName          = "params"
	requestName         = "request"
	namespaceName       = "namespaceObject"
	authorizerName      = "authorizer"
	requestResourceName = "authorizer.requestResource"
	variablesName       = "variables"
)
