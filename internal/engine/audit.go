package engine

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// This file tells the audit of a request what came in and what goes out. Where
// its policy wants less than objects, nothing here encodes any.

// auditRequest tells of an object that came in, in the version it came in.
func auditRequest(req *http.Request, obj runtime.Object) {
	a := request.AuditFrom(req.Context())
	if !a.Wants(request.AuditMetadata) {
		return
	}
	named, _ := obj.(metav1.Object)
	a.Request(named, func() ([]byte, error) { return marshalJSON(obj) })
}

// auditSent tells of an object that was sent to be stored; obj is of the hub version.
func (c *call) auditSent(obj Object) {
	a := request.AuditFrom(c.req.Context())
	if !a.Wants(request.AuditMetadata) {
		return
	}
	a.Request(obj, func() ([]byte, error) {
		sent, err := c.fromHub(obj.DeepCopyObject().(Object))
		if err != nil {
			return nil, err
		}
		return marshalJSON(sent)
	})
}

// auditAnswer tells of an answer that is an object.
func auditAnswer(req *http.Request, obj runtime.Object) {
	status, _ := obj.(*metav1.Status)
	request.AuditFrom(req.Context()).Response(status, func() ([]byte, error) { return marshalJSON(obj) })
}

// auditJSON tells of an answer that is no Status.
func auditJSON(req *http.Request, encode func() ([]byte, error)) {
	if a := request.AuditFrom(req.Context()); a.Wants(request.AuditRequestResponse) {
		a.Response(nil, encode)
	}
}

// auditItem tells of an answer that is a stored object.
func (c *call) auditItem(out output, i *store.Item) {
	auditJSON(c.req, func() ([]byte, error) {
		f := c.forms.of(output{shape: out.shape, dropManaged: out.dropManaged})
		b, err := c.json(i, f)
		if err != nil {
			return nil, err
		}
		return f.object(b), nil
	})
}
