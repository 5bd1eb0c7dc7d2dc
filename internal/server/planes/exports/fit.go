package exports

import (
	"context"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
	"github.com/kanzen-io/kanzen/internal/object/schema"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// This file finds out whether what a plane has stored is valid by another schema.

const (
	// shownMisfits is how many objects a condition names.
	shownMisfits = 3
	// fitPage is how many objects are read at a time.
	fitPage = 500
)

func versionOf(d *apiextensionsv1.CustomResourceDefinition, name string) *apiextensionsv1.CustomResourceDefinitionVersion {
	for n := range d.Spec.Versions {
		if d.Spec.Versions[n].Name == name {
			return &d.Spec.Versions[n]
		}
	}
	return nil
}

func storageVersion(d *apiextensionsv1.CustomResourceDefinition) string {
	for _, v := range d.Spec.Versions {
		if v.Storage {
			return v.Name
		}
	}
	return ""
}

// misfits says how many of the stored objects of a kind do not fit its new definition, and names the first; "": all fit. It reads the
// log, whether the plane is awake or not. An object that is written meanwhile is checked by the schema that is served then.
func (b *binding) misfits(ctx context.Context, d *apiextensionsv1.CustomResourceDefinition) (string, error) {
	schemas, err := servedSchemas(d)
	if err != nil {
		return err.Error(), nil
	}
	db, at, err := b.Planes.Log(ctx, b.plane.UID)
	if err != nil {
		return "", err
	}
	of := GroupResource{d.Spec.Group, d.Spec.Names.Plural}
	prefix := at + of.Group + "/" + of.Resource + "/"
	var shown []string
	count := 0
	for from, more := prefix, true; more; {
		var page []kv.KeyValue
		a, err := db.Range(ctx, kv.Range{Key: from, End: kv.PrefixEnd(prefix), Limit: fitPage}, func(k kv.KeyValue) bool { page = append(page, k); return true })
		if err != nil {
			return "", err
		}
		for _, k := range page {
			value, err := b.open(ctx, of, string(k.Key), k.Value)
			if err != nil {
				return "", err
			}
			why := misfit(ctx, d, schemas, value)
			if why == "" {
				continue
			}
			if count++; len(shown) < shownMisfits {
				shown = append(shown, strings.TrimPrefix(string(k.Key), prefix)+": "+why)
			}
			from = kv.After(k.Key)
		}
		if more = a.More && len(page) > 0; more {
			from = kv.After(page[len(page)-1].Key)
		}
	}
	if count == 0 {
		return "", nil
	}
	return fmt.Sprintf("%d objects of %s do not fit the new schema: %s", count, d.Name, strings.Join(shown, "; ")), nil
}

// servedSchemas compiles the schemas of the versions that are served or stored, by version.
func servedSchemas(d *apiextensionsv1.CustomResourceDefinition) (map[string]*schema.Schema, error) {
	all := map[string]*schema.Schema{}
	for _, v := range d.Spec.Versions {
		if !v.Served && !v.Storage || v.Schema == nil {
			continue
		}
		s, err := schema.Compile(v.Schema.OpenAPIV3Schema, schema.Options{})
		if err != nil {
			return nil, fmt.Errorf("the schema of %s in version %s: %w", d.Name, v.Name, err)
		}
		all[v.Name] = s
	}
	return all, nil
}

// misfit says why a stored object does not fit a definition; "": it does. It is judged as it would be read: without fields that the
// schema does not have, and with defaults.
func misfit(ctx context.Context, d *apiextensionsv1.CustomResourceDefinition, schemas map[string]*schema.Schema, value []byte) string {
	_, version, _ := strings.Cut(apiVersionOf(value), "/")
	if versionOf(d, version) == nil {
		return fmt.Sprintf("it is stored in version %s, which is no more", version)
	}
	for name, s := range schemas {
		object, err := jsonobject.Unmarshal(value)
		if err != nil {
			return err.Error()
		}
		object["apiVersion"] = d.Spec.Group + "/" + name
		if _, err := s.Coerce(object, schema.CoerceOptions{DropInvalid: true, RepairGeneration: true}); err != nil {
			return err.Error()
		}
		s.Default(object)
		if verdict := s.ValidateCreate(ctx, object); len(verdict.Errors) > 0 {
			return verdict.Errors[0].Error()
		}
	}
	return ""
}
