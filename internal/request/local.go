package request

import (
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
)

// Local is the body of a write that code in this process makes: Go objects
// instead of bytes, both ways. Everything else about the request is as in any
// other, so it is authorized, admitted and audited.
type Local struct {
	// Object is what is sent. The server does not change it. DeleteOptions are
	// that of a deletion.
	Object runtime.Object
	// Edit changes what is stored, in an update that sends no object. It may be
	// called several times, each time with a copy of what is stored then, in
	// the storage version. Its error is that of the request.
	Edit func(obj runtime.Object) error
	// Body is what is sent where there is no Go type for it, as with a patch;
	// nil: nothing.
	Body io.Reader

	// Answer is what the server answered with. It belongs to the caller, but for
	// objects in it that the caller sent.
	Answer runtime.Object
	// Err is why the request was refused, if the engine did so.
	Err error
}

// LocalFrom returns the Local that a request brings, or nil.
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
