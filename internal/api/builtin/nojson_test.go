package builtin_test

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
	"github.com/kanzen-io/kanzen/internal/api/openapi"
	"github.com/kanzen-io/kanzen/internal/engine"
)

// noJSON are values, by their type, that protobuf can hold and JSON cannot.
var noJSON = map[reflect.Type][]any{
	reflect.TypeFor[runtime.RawExtension]():                  {runtime.RawExtension{Raw: []byte("{")}, runtime.RawExtension{Raw: []byte{}}, runtime.RawExtension{Raw: []byte("z")}},
	reflect.TypeFor[apiextensionsv1.JSON]():                  {apiextensionsv1.JSON{Raw: []byte(`"`)}, apiextensionsv1.JSON{Raw: []byte("1z")}},
	reflect.TypeFor[intstr.IntOrString]():                    {intstr.IntOrString{Type: 7}},
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrBool](): {apiextensionsv1.JSONSchemaPropsOrBool{Schema: &apiextensionsv1.JSONSchemaProps{Default: &apiextensionsv1.JSON{Raw: []byte("{")}}}},
}

// spoil puts a value at every place of its type in v, of which lists and pointers are made as deep as types do not repeat, and
// reports whether there is one.
func spoil(v reflect.Value, bad any, within map[reflect.Type]bool) (found bool) {
	if v.Type() == reflect.TypeOf(bad) {
		v.Set(reflect.ValueOf(bad))
		return true
	}
	switch v.Kind() {
	case reflect.Struct:
		if within[v.Type()] || v.Type().PkgPath() == "k8s.io/apimachinery/pkg/apis/meta/v1" || v.Type().PkgPath() == "k8s.io/apimachinery/pkg/api/resource" {
			return false
		}
		within[v.Type()] = true
		defer delete(within, v.Type())
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				found = spoil(v.Field(i), bad, within) || found
			}
		}
	case reflect.Pointer:
		to := reflect.New(v.Type().Elem())
		if found = spoil(to.Elem(), bad, within); found {
			v.Set(to)
		}
	case reflect.Slice:
		one := reflect.MakeSlice(v.Type(), 1, 1)
		if found = spoil(one.Index(0), bad, within); found {
			v.Set(one)
		}
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String {
			return false
		}
		value := reflect.New(v.Type().Elem()).Elem()
		if found = spoil(value, bad, within); found {
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.ValueOf("a").Convert(v.Type().Key()), value)
		}
	}
	return found
}

// TestObjectsThatAreNoJSON writes each kind with values that only protobuf can hold: that is the client's mistake and no panic,
// and nothing is stored that could not be served as JSON.
func TestObjectsThatAreNoJSON(t *testing.T) {
	types, n := openapi.NewTypeConverter(), 0
	for _, w := range ways() {
		if w.r.Prefix == "" {
			continue // nothing of it is stored
		}
		for _, values := range noJSON {
			for _, bad := range values {
				sent := w.v.New()
				if !spoil(reflect.ValueOf(sent).Elem(), bad, map[reflect.Type]bool{}) {
					continue
				}
				n++
				sent.GetObjectKind().SetGroupVersionKind(w.kind(w.v))
				live := w.v.New()
				live.GetObjectKind().SetGroupVersionKind(w.kind(w.v))
				j := judge(t, w, types)
				if _, err := j.ours.Update(context.Background(), sent.DeepCopyObject().(engine.Object), live.DeepCopyObject().(engine.Object), "m"); err != nil {
					t.Logf("what is stored as %s cannot be mended: %v", w.kind(w.v), err) // it is no panic
				}
				out, err := j.ours.Update(context.Background(), live, sent, "m")
				if err != nil || w.sub != "" {
					continue
				}
				if _, err = json.Marshal(out); err == nil {
					continue
				}
				hub := must(versions{w}.ConvertToVersion(out, w.r.Hub)).(engine.Object)
				if len(w.rules.Validate(rulestest.Context(), hub)) == 0 {
					t.Errorf("a %s with %+v is stored: %v", w.kind(w.v), bad, err)
				}
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d objects were tried", n)
	}
}
