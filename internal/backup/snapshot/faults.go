package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Fault is a stored object that is not what its key says.
type Fault struct {
	Key string
	Err error
}

// maxFaults is how many faults are told; the others are counted.
const maxFaults = 50

// Objects is what a look at all objects has found.
type Objects struct {
	Objects int64
	// Sealed are encrypted values that were not read, because nothing decrypts them.
	Sealed int64
	// Faulty counts all faults, and Faults are the first of them.
	Faulty int64
	Faults []Fault
}

func (o *Objects) fault(key string, err error) {
	if o.Faulty++; len(o.Faults) < maxFaults {
		o.Faults = append(o.Faults, Fault{key, err})
	}
}

// CheckObjects decodes every object of a database: it must have the kind, the namespace and the name of its key, and a custom resource a
// definition. decrypts says that the Kinds decrypt values.
func (k *Kinds) CheckObjects(ctx context.Context, db kv.Recorded, decrypts bool) (*Objects, error) {
	c := objectCheck{Kinds: k, decrypts: decrypts, out: &Objects{}, definitions: map[schema.GroupResource]*apiextensionsv1.CustomResourceDefinition{}, custom: map[custom]*firstOf{}}
	err := db.Records(ctx, kv.Reading{}, func(r *kv.Record) error {
		if r.Newest && !r.Deleted {
			c.object(ctx, r)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.judgeCustom()
	return c.out, nil
}

type objectCheck struct {
	*Kinds
	decrypts    bool
	out         *Objects
	definitions map[schema.GroupResource]*apiextensionsv1.CustomResourceDefinition
	// custom are the kinds of custom resources. They are judged once all definitions were read.
	custom map[custom]*firstOf
}

type custom struct {
	schema.GroupResource
	version, kind string
	namespaced    bool
}

// firstOf is the first of some objects.
type firstOf struct {
	key     string
	objects int64
}

// object looks at the value of a key.
func (c *objectCheck) object(ctx context.Context, r *kv.Record) {
	key := string(r.Key)
	id, builtin, ok := c.place(key)
	if !ok {
		if builtin != nil {
			c.out.fault(key, fmt.Errorf("it is no key of %s", builtin.Plural))
		}
		return
	}
	c.out.Objects++
	if bytes.HasPrefix(r.Value, []byte(encrypted)) && !c.decrypts {
		c.out.Sealed++
		return
	}
	if err := c.look(ctx, key, id, builtin, r.Value); err != nil {
		c.out.fault(key, err)
	}
}

func (c *objectCheck) look(ctx context.Context, key string, id ID, builtin *engine.Resource, value []byte) error {
	plain, _, err := c.transformer(id.GroupResource).FromStorage(ctx, key, value)
	if err != nil {
		return fmt.Errorf("decrypt: %w", err)
	}
	return c.judge(ctx, key, id, builtin, plain)
}

// judge looks at a decrypted value.
func (c *objectCheck) judge(ctx context.Context, key string, id ID, builtin *engine.Resource, plain []byte) error {
	if builtin == nil {
		return c.lookCustom(key, id, plain)
	}
	obj, err := builtin.Decode(ctx, bytes.Clone(plain))
	if err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	if d, ok := obj.(*apiextensionsv1.CustomResourceDefinition); ok {
		c.definitions[schema.GroupResource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural}] = d
	}
	kind, err := storedKind(plain)
	if err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	if kind != builtin.Kind {
		return fmt.Errorf("it says that it is a %q, not a %s", kind, builtin.Kind)
	}
	return id.same(obj)
}

// protobuf begins a value in the envelope of kube-apiserver.
const protobuf = "k8s\x00"

// storedKind is the kind that a value says it has.
func storedKind(value []byte) (string, error) {
	if raw, ok := bytes.CutPrefix(value, []byte(protobuf)); ok {
		var u runtime.Unknown
		err := u.Unmarshal(raw)
		return u.Kind, err
	}
	var t metav1.TypeMeta
	err := json.Unmarshal(value, &t)
	return t.Kind, err
}

// same returns an error if an object has another namespace or name than its key.
func (id ID) same(obj metav1.Object) error {
	if obj.GetNamespace() != id.Namespace || obj.GetName() != id.Name {
		return fmt.Errorf("it says that it is %s", ID{id.GroupResource, obj.GetNamespace(), obj.GetName()})
	}
	return nil
}

func (c *objectCheck) lookCustom(key string, id ID, plain []byte) error {
	content, err := decodeCustom(plain)
	if err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	u := &unstructured.Unstructured{Object: content}
	gvk := u.GroupVersionKind()
	if gvk.Group != id.Group || gvk.Version == "" || gvk.Kind == "" {
		return fmt.Errorf("it says that it is a %q of %q", gvk.Kind, u.GetAPIVersion())
	}
	is := custom{id.GroupResource, gvk.Version, gvk.Kind, id.Namespace != ""}
	if c.custom[is] == nil {
		c.custom[is] = &firstOf{key: key}
	}
	c.custom[is].objects++
	return id.same(u)
}

// judgeCustom compares the kinds of custom resources with their definitions.
func (c *objectCheck) judgeCustom() {
	kinds := slices.SortedFunc(maps.Keys(c.custom), func(a, b custom) int { return strings.Compare(c.custom[a].key, c.custom[b].key) })
	for _, is := range kinds {
		err := is.fits(c.definitions[is.GroupResource])
		if err == nil {
			continue
		}
		first := c.custom[is]
		if first.objects > 1 {
			err = fmt.Errorf("%w (and %d others)", err, first.objects-1)
		}
		c.out.fault(first.key, err)
		c.out.Faulty += first.objects - 1
	}
}

func (is custom) fits(d *apiextensionsv1.CustomResourceDefinition) error {
	if d == nil {
		return fmt.Errorf("there is no definition of %s", is.GroupResource)
	}
	known := slices.ContainsFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == is.version })
	switch {
	case d.Spec.Names.Kind != is.kind:
		return fmt.Errorf("it says that it is a %s; its definition says %s", is.kind, d.Spec.Names.Kind)
	case !known && !slices.Contains(d.Status.StoredVersions, is.version):
		return fmt.Errorf("its definition has no version %s", is.version)
	case is.namespaced != (d.Spec.Scope == apiextensionsv1.NamespaceScoped):
		return errors.New("its key is not of the scope of its definition, which is " + cmp.Or(string(d.Spec.Scope), "none"))
	}
	return nil
}
