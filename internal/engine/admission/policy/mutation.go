package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"google.golang.org/protobuf/types/known/structpb"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	celmutation "k8s.io/apiserver/pkg/cel/mutation"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/expr"
	"github.com/kanzen-io/kanzen/internal/engine/admission/patch"
	"github.com/kanzen-io/kanzen/internal/object/cel"
)

// mutation is a mutation of a policy: an expression, and a func that applies
// its result to an object and returns a changed copy.
type mutation struct {
	program *cel.Program
	change  func(a *admission.Attributes, obj runtime.Object, v ref.Val) (runtime.Object, error)
}

// mutate changes the object of a write. A StatusError ends the write.
func (m *mutation) mutate(ctx context.Context, a *admission.Attributes, write *expr.Write, in *invocation) error {
	if err := m.program.Err(); err != nil {
		return err
	}
	view, err := write.In(ctx, in.version)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	inputs := &expr.Inputs{View: view, Ctx: ctx, Params: in.with.value, Authorizer: true, Namespace: true}
	run := cel.NewRun(ctx, inputs, in.policy.variables, celconfig.RuntimeCELCostBudget)
	got, err, end := run.Eval(m.program)
	if err = errors.Join(err, end); err != nil {
		return err
	}
	made, err := m.change(a, view.Object(), got)
	if err != nil {
		return err
	}
	if a.Versions != nil {
		if err := a.Versions.Complete(made); err != nil {
			return apierrors.NewInternalError(err)
		}
		if made, err = a.Versions.Hub(ctx, made); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("failed to convert object: %w", err))
		}
	}
	a.Object = made
	write.Changed()
	return nil
}

// errorType returns the name of an error in metrics.
func errorType(err error) string {
	switch {
	case err == nil:
		return "no_error"
	case strings.HasPrefix(err.Error(), "compilation"):
		return "compile_error"
	case cel.IsOutOfBudget(err):
		return "out_of_budget"
	}
	return "invalid_error"
}

// jsonPatched changes an object by a list of JSON patch operations.
func jsonPatched(_ *admission.Attributes, obj runtime.Object, v ref.Val) (runtime.Object, error) {
	p, err := operations(v)
	if err != nil {
		return nil, err
	}
	doc, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("failed to create JSON patch: %w", err)
	}
	doc, err = patch.Apply(p, doc)
	if errors.Is(err, jsonpatch.ErrTestFailed) {
		return obj.DeepCopyObject(), nil // a patch with a failed test is not applied
	}
	if err != nil {
		return nil, fmt.Errorf("JSON Patch: %w", err)
	}
	made, err := patch.DecodeObject(doc, obj, true)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return made, nil
}

// operations returns the patch that an expression has made.
func operations(v ref.Val) (jsonpatch.Patch, error) {
	list, ok := v.(traits.Lister)
	if !ok {
		return nil, errors.New("type mismatch: JSONPatchType.expression should evaluate to array")
	}
	out := jsonpatch.Patch{}
	for it := list.Iterator(); it.HasNext() == types.True; {
		native, err := it.Next().ConvertToNative(reflect.TypeFor[*celmutation.JSONPatchVal]())
		if err != nil {
			return nil, fmt.Errorf("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch: %w", err)
		}
		op, ok := native.(*celmutation.JSONPatchVal)
		if !ok {
			return nil, fmt.Errorf("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got element of %T", native)
		}
		o, err := operation(op)
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	if len(out) > patch.MaxOperations {
		return nil, fmt.Errorf("JSON Patch: it may have %d operations, this one has %d", patch.MaxOperations, len(out))
	}
	return out, nil
}

func operation(op *celmutation.JSONPatchVal) (jsonpatch.Operation, error) {
	text := func(s string) *json.RawMessage {
		b, _ := json.Marshal(s) // encoding a string cannot fail
		return (*json.RawMessage)(&b)
	}
	out := jsonpatch.Operation{"op": text(op.Op), "path": text(op.Path)}
	if op.From != "" {
		out["from"] = text(op.From)
	}
	if op.Val == nil {
		return out, nil
	}
	if obj, ok := op.Val.(*dynamic.ObjectVal); ok {
		if err := obj.CheckTypeNamesMatchFieldPathNames(); err != nil {
			return nil, fmt.Errorf("type mismatch: %w", err)
		}
	}
	v, err := op.Val.ConvertToNative(reflect.TypeFor[*structpb.Value]())
	if err == nil {
		var b []byte
		if b, err = json.Marshal(v); err == nil {
			out["value"] = (*json.RawMessage)(&b)
			return out, nil
		}
	}
	return nil, fmt.Errorf("JSONPath valueExpression evaluated to a type that could not marshal to JSON: %w", err)
}
