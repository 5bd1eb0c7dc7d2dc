package bundle

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/kanzen-io/kanzen/internal/engine/bundle/v1"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
)

// renamed has the UIDs that objects were created with in the place of what other writes call them: in references to owners, in
// metadata.managedFields, in annotations. A UID is in no other word.
func (c *carrying) renamed(object []byte) []byte {
	if len(c.uids) == 0 {
		return object
	}
	var pairs []string
	for was, is := range c.uids {
		pairs = append(pairs, string(was), string(is))
	}
	return []byte(strings.NewReplacer(pairs...).Replace(string(object)))
}

// ownAttempts is how often managers are sent anew because the server itself has written the object meanwhile, as it does with the
// conditions of a definition.
const ownAttempts = 5

// own gives an object that was written the managers of its write: an update that changes nothing else and sends them.
func (c *carrying) own(ctx context.Context, w *write, t inprocess.Target, status *v1.ItemStatus) error {
	if w.Owners == nil || c.options.FieldManager != "" {
		return nil
	}
	raw, err := json.Marshal(w.Owners)
	if err != nil {
		return err
	}
	var owners []metav1.ManagedFieldsEntry
	if err := json.Unmarshal(c.renamed(raw), &owners); err != nil {
		return err
	}
	object := status.Object.Raw
	for n := 0; ; n++ {
		again := write{Write: &Write{Manager: w.Manager}, meta: w.meta, namespace: w.namespace}
		again.Verb = v1.Update
		var differs bool
		if again.Object.Raw, differs, err = owned(object, owners); err != nil || !differs {
			return err
		}
		_, _, err = c.send(ctx, &again, t, status)
		if !apierrors.IsConflict(err) || n == ownAttempts {
			return err
		}
		if object, _, err = c.get(ctx, &Change{Other: v1.Other{Group: t.Resource.Group, Resource: t.Resource.Resource, Namespace: t.Namespace, Name: t.Name}, Version: t.Resource.Version}); err != nil {
			return err
		}
	}
}

// owned returns an object with other managers; differs is false if it has them.
func owned(object []byte, owners []metav1.ManagedFieldsEntry) (out []byte, differs bool, err error) {
	var now metav1.PartialObjectMetadata
	if err := json.Unmarshal(object, &now); err != nil || alike(owners, now.ManagedFields) {
		return nil, false, err
	}
	content, err := jsonobject.Unmarshal(object)
	if err != nil {
		return nil, false, err
	}
	meta, _ := content["metadata"].(map[string]any)
	meta["managedFields"] = owners
	out, err = json.Marshal(content)
	return out, true, err
}

// alike compares managers, but for their times.
func alike(a, b []metav1.ManagedFieldsEntry) bool {
	a, b = slices.SortedFunc(slices.Values(a), byName), slices.SortedFunc(slices.Values(b), byName)
	return slices.EqualFunc(a, b, func(x, y metav1.ManagedFieldsEntry) bool {
		return byName(x, y) == 0 && bytes.Equal(x.FieldsV1.GetRawBytes(), y.FieldsV1.GetRawBytes())
	})
}

func byName(x, y metav1.ManagedFieldsEntry) int {
	return cmp.Or(cmp.Compare(x.Manager, y.Manager), cmp.Compare(x.Operation, y.Operation), cmp.Compare(x.APIVersion, y.APIVersion), cmp.Compare(x.Subresource, y.Subresource))
}
