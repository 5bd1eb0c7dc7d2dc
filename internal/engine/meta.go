package engine

import (
	"context"
	"fmt"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
	"github.com/kanzen-io/kanzen/internal/request"
)

// This file holds the rules for metadata that are the same for every kind.

// wipe clears, in an object to be created, the fields that only the server sets.
func wipe(obj Object) {
	obj.SetCreationTimestamp(metav1.Time{})
	obj.SetUID("")
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetSelfLink("")
	obj.SetResourceVersion("")
}

// born sets the fields that the server sets in a new object. Nobody, neither an apply nor a webhook, makes one that is being deleted.
func (e *Engine) born(obj Object) {
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetCreationTimestamp(metav1.NewTime(e.Clock.Now().Truncate(1e9)))
	obj.SetUID(types.UID(e.NewUID()))
}

// generatedMax is the longest prefix of a generated name; five characters follow.
const generatedMax = 63 - 5

// generateName makes a name from metadata.generateName.
func (e *Engine) generateName(base string) string {
	if len(base) > generatedMax {
		base = base[:generatedMax]
	}
	return base + e.NameSuffix()
}

// fitNamespace makes the object's namespace the request's, or refuses one that differs.
func (w *write) fitNamespace(obj Object) error {
	want := w.namespace
	switch got := obj.GetNamespace(); {
	case want == "" && got != "":
		// Cluster-scoped objects have none, whatever the client wrote.
		if w.R.Namespaced {
			return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
		}
		obj.SetNamespace("")
	case got == "":
		obj.SetNamespace(want)
	case got != want:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// fitName refuses an object that is not named as the path says.
func (w *write) fitName(obj Object) error {
	switch got := obj.GetName(); {
	case got == "":
		return w.nameless()
	case got != w.name:
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", got, w.name))
	}
	return nil
}

// nameless refuses an object without a name.
func (w *write) nameless() error {
	return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be provided", w.name))
}

// dedupOwners drops repeated owner references with a warning.
func dedupOwners(ctx context.Context, obj Object, afterAdmission bool) {
	refs := obj.GetOwnerReferences()
	if len(refs) < 2 {
		return
	}
	var kept []metav1.OwnerReference
	var repeats []string
	for _, r := range refs {
		known := false
		for _, k := range kept {
			known = known || k.UID == r.UID && apiequality.Semantic.DeepEqual(k, r)
		}
		if known {
			repeats = append(repeats, string(r.UID))
			continue
		}
		kept = append(kept, r)
	}
	if len(repeats) == 0 {
		return
	}
	obj.SetOwnerReferences(kept)
	text := ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, " +
		"and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: %v"
	if afterAdmission {
		text = ".metadata.ownerReferences contains duplicate entries after mutating admission happens; " +
			"API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; " +
			"please fix your requests; duplicate UID(s) observed: %v"
	}
	request.AddWarning(ctx, fmt.Sprintf(text, strings.Join(repeats, ", ")))
}

// pathSegment is the rule that names of all kinds must obey.
func pathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

var metadataPath = field.NewPath("metadata")

// checkMeta validates an object's metadata.
func (w *write) checkMeta(obj Object) field.ErrorList {
	return rules.ValidateMeta(obj, w.R.Namespaced, pathSegment, metadataPath)
}

// checkMetaUpdate validates an update of an object's metadata.
func (w *write) checkMetaUpdate(obj, old Object) field.ErrorList {
	errs := w.checkMeta(obj)
	if len(errs) == 0 && rules.KeepsIdentity(obj, old) {
		return nil // what is left has just been checked
	}
	return append(errs, validation.ValidateObjectMetaAccessorUpdate(obj, old, metadataPath)...)
}

// carryMeta copies the metadata that updates never change from old to obj.
func carryMeta(obj, old Object) {
	if obj.GetUID() == "" {
		obj.SetUID(old.GetUID())
	}
	if t := old.GetCreationTimestamp(); !t.IsZero() {
		obj.SetCreationTimestamp(t)
	}
	if t := old.GetDeletionTimestamp(); !t.IsZero() {
		obj.SetDeletionTimestamp(t)
	}
	if g := old.GetDeletionGracePeriodSeconds(); g != nil && obj.GetDeletionGracePeriodSeconds() == nil {
		obj.SetDeletionGracePeriodSeconds(g)
	}
}
