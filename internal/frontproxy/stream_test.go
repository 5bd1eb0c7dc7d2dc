package frontproxy

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"
)

// The deadline of a request ends an upgrade that nobody has answered, but no stream that has begun. A client that leaves
// ends both.
func TestStreamOutlivesDeadline(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name          string
		begun, leaves bool
		ended         bool
	}{
		{"unanswered", false, false, true}, {"begun", true, false, false}, {"left", true, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			client, leave := context.WithCancel(t.Context())
			defer leave()
			request, cancel := context.WithTimeout(client, time.Hour)
			if !test.leaves {
				cancel()
				request, cancel = context.WithDeadline(client, time.Unix(1, 0))
			}
			defer cancel()
			if !test.leaves && !test.begun {
				inner, end := NewStream(request, httptest.NewRecorder(), nil)
				defer end()
				<-inner.Done()
				return
			}
			late := make(chan struct{})
			inner, end := NewStream(lateContext{request, late}, httptest.NewRecorder(), nil)
			defer end()
			StreamBegins(inner)
			if test.leaves {
				leave()
				close(late)
				<-inner.Done()
				return
			}
			close(late)
			select {
			case <-inner.Done():
				t.Error("the deadline has ended the stream")
			case <-time.After(50 * time.Millisecond):
			}
			if OfRequest(inner).Err() == nil {
				t.Error("the request has no deadline")
			}
		})
	}
}

// lateContext ends as its parent, but only when late is closed.
type lateContext struct {
	context.Context
	late chan struct{}
}

// Done is part of context.Context.
func (c lateContext) Done() <-chan struct{} { return c.late }
