package extension

import (
	"context"
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// Functions are how the objects of a kind are read and written where they are not in the storage of the server: in a
// database, in another system, or computed.
//
// List is asked before each read and write, so both build on what there is; the server compares what it says with what it said
// before, and tells watches of the difference. Versions, field managers and all other metadata that List leaves empty
// are kept by the server, in memory, for as long as it runs. So is the last answer of List: Functions are for thousands
// of objects, not for millions.
//
// Errors of k8s.io/apimachinery/pkg/api/errors reach the client as they are, others as internal errors. No two of the
// funcs List, Save and Delete are called at the same time.
type Functions[T any] struct {
	// List returns all objects, of all namespaces.
	List func(ctx context.Context) ([]*T, error)
	// Watch calls changed whenever List would answer something new, until ctx ends. Nil: List is asked every Poll.
	Watch func(ctx context.Context, changed func()) error
	// Save creates an object (old is nil) or changes it. Nil: clients cannot.
	Save func(ctx context.Context, obj, old *T) error
	// Delete deletes an object. Nil: clients cannot.
	Delete func(ctx context.Context, obj *T) error

	// MaxAge is how old an answer of List may be that a read is served from; zero: each read asks, those that come at
	// the same time together.
	MaxAge time.Duration
	// Poll is how often List is asked without a Watch; zero: every ten seconds.
	Poll time.Duration
}

// source is Functions without their type. Objects are JSON.
type source struct {
	list         func(ctx context.Context) ([]item, error)
	watch        func(ctx context.Context, changed func()) error
	save         func(ctx context.Context, obj, old []byte) ([]byte, error) // returns obj as T holds it
	remove       func(ctx context.Context, obj []byte) error
	maxAge, poll time.Duration
}

// item is an object that a source lists.
type item struct {
	namespace, name string
	json            []byte
}

func newSource[T any, P Object[T]](f *Functions[T]) *source {
	s := &source{watch: f.Watch, maxAge: f.MaxAge, poll: f.Poll}
	if s.poll == 0 {
		s.poll = 10 * time.Second
	}
	s.list = func(ctx context.Context) ([]item, error) {
		all, err := f.List(ctx)
		if err != nil {
			return nil, err
		}
		out := make([]item, len(all))
		for n, obj := range all {
			var m metav1.Object = P(obj)
			if out[n].json, err = json.Marshal(obj); err != nil {
				return nil, err
			}
			out[n].namespace, out[n].name = m.GetNamespace(), m.GetName()
		}
		return out, nil
	}
	if f.Save != nil {
		s.save = func(ctx context.Context, obj, old []byte) ([]byte, error) {
			now, before, err := pair[T](obj, old)
			if err != nil {
				return nil, err
			}
			held, err := json.Marshal(now)
			if err != nil {
				return nil, err
			}
			return held, f.Save(ctx, now, before)
		}
	}
	if f.Delete != nil {
		s.remove = func(ctx context.Context, obj []byte) error {
			now, _, err := pair[T](obj, nil)
			if err != nil {
				return err
			}
			return f.Delete(ctx, now)
		}
	}
	return s
}

// pair decodes an object and what it was before, if it was.
func pair[T any](obj, old []byte) (now, before *T, err error) {
	now = new(T)
	if err := json.Unmarshal(obj, now); err != nil {
		return nil, nil, err
	}
	if old != nil {
		before = new(T)
		err = json.Unmarshal(old, before)
	}
	return now, before, err
}

// limit takes the verbs from a resource that there are no funcs for.
func (s *source) limit(r *engine.Resource) {
	r.Verbs = nil
	add := func(there bool, verbs ...string) {
		if there {
			r.Verbs = append(r.Verbs, verbs...)
		}
	}
	add(s.save != nil, "create")
	add(s.remove != nil, "delete", "deletecollection")
	r.Verbs = append(r.Verbs, "get", "list")
	add(s.save != nil, "patch", "update")
	r.Verbs = append(r.Verbs, "watch")
	if s.save == nil {
		r.Subresources = nil
	}
}
