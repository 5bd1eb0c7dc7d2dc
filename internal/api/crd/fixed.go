package crd

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Fixed is a definition that belongs to a program and is not an object of the API.
type Fixed struct {
	Definition *apiextensionsv1.CustomResourceDefinition
	// Engine serves the objects; nil: Config.Engine does.
	Engine *engine.Engine
	// Finish changes the resource that is made of the definition, and its description, which has neither rules nor
	// columns. Optional.
	Finish func(*engine.Resource)
	// Convert returns an object in another version ("v1") and leaves obj as it is. Optional: without it versions differ
	// in nothing but their name.
	Convert func(obj *unstructured.Unstructured, to string) (*unstructured.Unstructured, error)
	// Connects describes subresources that Finish adds. Optional.
	Connects []catalog.Connect
}

// NewFixed creates a Server of definitions that never change, and puts them into the catalog. Config.Definitions and
// Config.Client are not needed. The Server is not run.
func NewFixed(c Config, definitions ...Fixed) (*Server, error) {
	s := New(c)
	for n, f := range definitions {
		d, err := newFixed(f, int64(n+1))
		if err != nil {
			return nil, err
		}
		s.put(d)
	}
	return s, nil
}

// newFixed returns the index entry of a definition, whose names are accepted.
func newFixed(f Fixed, number int64) (*definition, error) {
	crd := f.Definition.DeepCopy()
	crd.TypeMeta = metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"}
	crd.Status.AcceptedNames = crd.Spec.Names
	for _, t := range []apiextensionsv1.CustomResourceDefinitionConditionType{apiextensionsv1.NamesAccepted, apiextensionsv1.Established} {
		crd.Status.Conditions = append(crd.Status.Conditions,
			apiextensionsv1.CustomResourceDefinitionCondition{Type: t, Status: apiextensionsv1.ConditionTrue})
	}
	text, err := json.Marshal(crd)
	if err != nil {
		return nil, fmt.Errorf("definition %s: %w", crd.Name, err)
	}
	if len(f.Connects) > 0 {
		text = fmt.Appendf(text, "%+v", f.Connects)
	}
	crd.UID = types.UID(fmt.Sprintf("%x", sha256.Sum256(text))) // by which clients know the documents of another build
	value, err := json.Marshal(crd)
	if err != nil {
		return nil, fmt.Errorf("definition %s: %w", crd.Name, err)
	}
	d, err := newDefinition(store.NewItem(crd.Name, number, value))
	if err != nil {
		return nil, fmt.Errorf("definition %s: %w", crd.Name, err)
	}
	d.finish, d.engine, d.connects = f.Finish, f.Engine, f.Connects
	if f.Convert != nil {
		d.convert = each(f.Convert)
	}
	return d, nil
}

// each makes a converter of many objects out of one of a single one. What is converted must be fit to be the same
// object, as that of a webhook.
func each(convert func(object, string) (object, error)) converter {
	return func(ctx context.Context, objs []object, to string) ([]object, error) {
		_, version, _ := strings.Cut(to, "/")
		for n, obj := range objs {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			out, err := convert(obj, version)
			if err == nil {
				err = fits(obj, out, to)
			}
			if err != nil {
				return nil, fmt.Errorf("conversion of %s %q to %s: %w", obj.GetKind(), obj.GetName(), to, err)
			}
			objs[n] = out
		}
		return objs, nil
	}
}

// decodeFixed decodes a definition as newFixed encodes it.
func decodeFixed(i *store.Item) (*apiextensionsv1.CustomResourceDefinition, error) {
	d := &apiextensionsv1.CustomResourceDefinition{}
	return d, json.Unmarshal(i.Value(), d)
}
