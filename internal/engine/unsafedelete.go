package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// This file is about objects whose stored bytes cannot be decrypted or decoded. With the feature gate
// AllowUnsafeMalformedObjectDeletion they can be deleted by who has a right to that, and lists name them all.

// unsafeVerb is the verb that a user must be allowed to delete what cannot be read.
const unsafeVerb = "unsafe-delete-ignore-read-errors"

// unsafeOption is the option that asks for it.
const unsafeOption = "ignoreStoreReadErrorWithClusterBreakingPotential"

func wantsUnsafe(o *metav1.DeleteOptions) bool {
	return o.IgnoreStoreReadErrorWithClusterBreakingPotential != nil && *o.IgnoreStoreReadErrorWithClusterBreakingPotential
}

func invalidUnsafe(kind schema.GroupKind, name, why string) error {
	return apierrors.NewInvalid(kind, name, field.ErrorList{field.Invalid(field.NewPath(unsafeOption), true, why)})
}

// corrupt returns why an item cannot be read, nil if it can be, or if ctx has ended: then it was not read to the end.
func (w *write) corrupt(ctx context.Context, i *store.Item) error {
	switch _, err := w.Decode(ctx, i); {
	case err == nil, ctx.Err() != nil:
		return nil
	case i.Err != nil:
		return fmt.Errorf("data from the storage is not transformable revision=0: %w", i.Err)
	default:
		return fmt.Errorf("object not decodable revision=%d: %w", i.Rev, errors.Unwrap(err))
	}
}

// corruptError says in upstream's words that the object at a key is corrupt.
func corruptError(key string, err error) error {
	const code = 7
	return fmt.Errorf("StorageError: corrupt object, Code: %d, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: %w", code, key, err)
}

// corruptItem is the error of a get or a deletion of an item that cannot be read; nil if it can be, or without the gate.
func (w *write) corruptItem(ctx context.Context, i *store.Item) error {
	if !w.e.UnsafeDelete {
		return nil
	}
	why := w.corrupt(ctx, i)
	if why == nil {
		return nil
	}
	// Without the prefix of all keys, as upstream tells it here.
	return apierrors.NewInternalError(corruptError("/"+w.view.Below(i.Key), why))
}

// unsafeDelete removes an object that cannot be read: without preconditions, finalizers, admission, and what else would follow
// its deletion, because all of that depends on the object.
func (w *write) unsafeDelete(ctx context.Context) error {
	request.AddAuditAnnotation(ctx, "apiserver.k8s.io/unsafe-delete-ignore-read-error", "")
	may := &request.Info{IsResource: true, Verb: unsafeVerb, Group: w.info.Group, Version: w.info.Version, Resource: w.info.Resource,
		Namespace: w.info.Namespace, Name: w.name, FieldSelector: w.info.FieldSelector, LabelSelector: w.info.LabelSelector}
	if err := w.e.Authorize(ctx, may); err != nil {
		return apierrors.NewForbidden(w.gr(), w.name, fmt.Errorf("not permitted to do %q, reason: ", unsafeVerb))
	}
	found, err := orNil(w.view.Latest(ctx, w.key(w.name)))
	if err != nil {
		return err
	}
	_, err = w.perform(ctx, found, true, func(ctx context.Context, found *store.Item) (*decision, error) {
		var why error
		if found != nil {
			why = w.corrupt(ctx, found)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if found == nil {
			return nil, apierrors.NewNotFound(w.gr(), w.name)
		}
		if why == nil {
			const code = 4
			return nil, apierrors.NewConflict(w.gr(), w.name, fmt.Errorf("StorageError: invalid object, Code: %d, Key: %s, ResourceVersion: 0, "+
				"AdditionalErrorMsg: unsafe deletion is not allowed because the object is decodable from storage", code, w.view.Shown(w.key(w.name))))
		}
		return &decision{found: found, act: actRemove, ended: func(stored bool) {
			if stored {
				w.e.Log.Warn("an object that could not be read was deleted", "key", w.view.Path(found.Key), "reason", why)
			}
		}}, nil
	})
	return err
}

// answerUnsafe answers a deletion of what could not be read, of which nothing but the name is known.
func (c *call) answerUnsafe(out output) error {
	defer c.answers().End()
	st := &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusOK, Details: &metav1.StatusDetails{Name: c.name, Kind: c.GVK.Kind}}
	st.SetGroupVersionKind(statusGVK)
	return writeAny(c.w, c.req, http.StatusOK, out, st)
}

// corruptTold bounds how many objects that cannot be read a list names.
const corruptTold = 100

// allCorrupt is the error of a list that has items which cannot be read: it names all of them. It is nil if there are none.
func (c *call) allCorrupt(each func(yield func(*store.Item) bool) error) error {
	var causes []metav1.StatusCause
	err := each(func(i *store.Item) bool {
		why := c.corrupt(c.req.Context(), i)
		if why == nil {
			return true
		}
		key := c.view.Shown(i.Key)
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeUnexpectedServerResponse, Field: key, Message: corruptError(key, why).Error()})
		return len(causes) < corruptTold
	})
	if err != nil || causes == nil {
		return err
	}
	message := fmt.Sprintf("failed to read one or more %s from the storage: %s", c.gr(), causes[0].Message)
	if more := len(causes) - 1; more > 0 {
		message = fmt.Sprintf("%s (and %d more)", message, more)
	}
	if len(causes) == corruptTold {
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeTooMany, Message: "too many errors, the list is truncated"})
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonStoreReadError,
		Details: &metav1.StatusDetails{Group: c.GVR.Group, Kind: c.GVR.Resource, Name: "list", Causes: causes},
		Message: message,
	}}
}
