package request

import (
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
)

// Local is the body of a write by code in this process: Go objects instead of
// bytes, in the request and in the answer. Otherwise the request is like any
// other, so it is authorized, admitted and audited.
type Local struct {
	// Which is the object that an update or a patch is meant for.
	Which Which
	// Object is the object to send. The server does not change it. A deletion
	// sends DeleteOptions.
	Object runtime.Object
	// Edit changes the stored object, in an update that sends no object. It may
	// be called several times, each time with a copy of the object stored then,
	// in the storage version. Its error becomes the error of the request.
	Edit func(obj runtime.Object) error
	// Body is the body of a request without a Go object, such as a patch; nil:
	// none.
	Body io.Reader

	// Answer is the server's answer. It belongs to the caller, except for
	// objects in it that the caller has sent.
	Answer runtime.Object
	// Err is the engine's error, if it has refused the request.
	Err error
}

// LocalFrom returns the Local of a request, or nil.
func LocalFrom(r *http.Request) *Local {
	l, _ := r.Body.(*Local)
	return l
}

// Read is part of io.Reader.
func (l *Local) Read(b []byte) (int, error) {
	if l.Body == nil {
		return 0, io.EOF
	}
	return l.Body.Read(b)
}

// Close is part of io.Closer.
func (l *Local) Close() error { return nil }
