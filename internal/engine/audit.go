package engine

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// This file offers the objects of a request and its answer to the audit log. They are
// encoded only if the audit policy asks for objects.

// auditRequest audits a request's object, in the version in which it was sent.
func auditRequest(req *http.Request, obj runtime.Object) {
	a := request.AuditFrom(req.Context())
	if !a.Wants(request.AuditMetadata) {
		return
	}
	named, _ := obj.(metav1.Object)
	a.Request(named, func() ([]byte, error) { return marshalJSON(obj) })
}

// auditSent audits an object that was sent to be stored; obj is of the hub version.
func (w *write) auditSent(ctx context.Context, obj Object) {
	a := request.AuditFrom(ctx)
	if !a.Wants(request.AuditMetadata) {
		return
	}
	a.Request(obj, func() ([]byte, error) {
		sent, err := w.fromHub(ctx, obj.DeepCopyObject().(Object))
		if err != nil {
			return nil, err
		}
		return marshalJSON(sent)
	})
}

// auditAnswer audits an answer that is an object.
func auditAnswer(req *http.Request, obj runtime.Object) {
	status, _ := obj.(*metav1.Status)
	request.AuditFrom(req.Context()).Response(status, func() ([]byte, error) { return marshalJSON(obj) })
}

// auditJSON audits an answer that is not a Status.
func auditJSON(req *http.Request, encode func() ([]byte, error)) {
	if a := request.AuditFrom(req.Context()); a.Wants(request.AuditRequestResponse) {
		a.Response(nil, encode)
	}
}

// auditItem audits an answer that is a stored object.
func (c *call) auditItem(out output, i *store.Item) {
	auditJSON(c.req, func() ([]byte, error) {
		f := c.prepared().forms.of(output{shape: out.shape, dropManaged: out.dropManaged})
		b, err := c.json(c.req.Context(), i, f)
		if err != nil {
			return nil, err
		}
		return f.object(b), nil
	})
}
