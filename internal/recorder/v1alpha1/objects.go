package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kanzen-io/kanzen/internal/request"
)

// FieldChange is a field that has changed.
type FieldChange = request.FieldChange

// The copies below share what is immutable: everything but the metadata.

// DeepCopyObject is part of runtime.Object.
func (r *Request) DeepCopyObject() runtime.Object {
	c := *r
	r.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// DeepCopyObject is part of runtime.Object.
func (w *Watch) DeepCopyObject() runtime.Object {
	c := *w
	w.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// DeepCopyObject is part of runtime.Object.
func (s *WebhookStat) DeepCopyObject() runtime.Object {
	c := *s
	s.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// DeepCopyObject is part of runtime.Object.
func (d *DeprecatedUse) DeepCopyObject() runtime.Object {
	c := *d
	d.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// DeepCopyObject is part of runtime.Object.
func (h *ObjectHistory) DeepCopyObject() runtime.Object {
	c := *h
	h.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// DeepCopyObject is part of runtime.Object.
func (e *AccessExplanation) DeepCopyObject() runtime.Object {
	c := *e
	e.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	e.Spec.DeepCopyInto(&c.Spec)
	return &c
}

// DeepCopyObject is part of runtime.Object.
func (l *RequestList) DeepCopyObject() runtime.Object { return copyList(l) }

// DeepCopyObject is part of runtime.Object.
func (l *WatchList) DeepCopyObject() runtime.Object { return copyList(l) }

// DeepCopyObject is part of runtime.Object.
func (l *WebhookStatList) DeepCopyObject() runtime.Object { return copyList(l) }

// DeepCopyObject is part of runtime.Object.
func (l *DeprecatedUseList) DeepCopyObject() runtime.Object { return copyList(l) }

func copyList[L any, PL interface {
	*L
	runtime.Object
}](l PL) runtime.Object {
	c := *l
	return PL(&c)
}

// DeepCopyObject is part of runtime.Object.
func (l *ObjectHistoryList) DeepCopyObject() runtime.Object { return copyList(l) }

// DeepCopyObject is part of runtime.Object.
func (l *AccessExplanationList) DeepCopyObject() runtime.Object { return copyList(l) }
