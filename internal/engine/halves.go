package engine

import (
	"context"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/kanzen-io/kanzen/internal/object/equal"
)

// half is a field of the Go type of a kind: its spec, or its status.
type half struct{ index []int }

// halfOf finds a field by its name. A kind that says that it has one must have it.
func halfOf[T Object](name string) half {
	f, found := reflect.TypeFor[T]().Elem().FieldByName(name)
	if !found {
		panic(reflect.TypeFor[T]().String() + " has no " + name)
	}
	return half{f.Index}
}

func (h half) of(obj Object) reflect.Value { return reflect.ValueOf(obj).Elem().FieldByIndex(h.index) }

// differs compares the half in two objects.
func (h half) differs(obj, old Object) bool {
	return !equal.Objects(h.of(obj).Addr().Interface(), h.of(old).Addr().Interface())
}

// keeping returns rules whose updates leave a half as it is stored. The rules' own preparation comes afterwards.
func keeping[T Object](t Typed[T], kept half, reset *fieldpath.Set) Typed[T] {
	update := t.PrepareUpdate
	t.PrepareUpdate = func(ctx context.Context, obj, old T) {
		kept.of(obj).Set(kept.of(old))
		if update != nil {
			update(ctx, obj, old)
		}
	}
	if t.Reset == nil {
		t.Reset = reset
	}
	return t
}

// statusApart returns rules whose writes do not reach the status.
func statusApart[T Object](t Typed[T]) Typed[T] {
	status, create := halfOf[T]("Status"), t.PrepareCreate
	t.PrepareCreate = func(ctx context.Context, obj T) {
		status.of(obj).SetZero()
		if create != nil {
			create(ctx, obj)
		}
	}
	return keeping(t, status, ResetStatus)
}

// counted returns rules whose writes count the changes of the spec, after their own preparation has made it what is stored.
func counted[T Object](t Typed[T]) Typed[T] {
	spec, create, update := halfOf[T]("Spec"), t.PrepareCreate, t.PrepareUpdate
	t.PrepareCreate = func(ctx context.Context, obj T) {
		obj.SetGeneration(1)
		if create != nil {
			create(ctx, obj)
		}
	}
	t.PrepareUpdate = func(ctx context.Context, obj, old T) {
		if update != nil {
			update(ctx, obj, old)
		}
		if spec.differs(obj, old) {
			obj.SetGeneration(old.GetGeneration() + 1)
		}
	}
	return t
}

// Status is the status subresource of a kind with these rules. Its writes leave the spec alone.
func Status[T Object](t Typed[T]) *Subresource {
	r := keeping(t, halfOf[T]("Spec"), ResetSpec).Rules()
	return &Subresource{Name: "status", Verbs: []string{"get", "patch", "update"}, Rules: &r, Table: true}
}

// WithoutTable returns s as one that is not printed.
func WithoutTable(s *Subresource) *Subresource {
	s.Table = false
	return s
}

// LoneStatus is Status for newer kinds, of which these writes change nothing but the status: they leave the metadata alone too.
func LoneStatus[T Object](t Typed[T]) *Subresource {
	update := t.PrepareUpdate
	t.PrepareUpdate = func(ctx context.Context, obj, old T) {
		metav1.ResetObjectMetaForStatus(obj, old)
		if update != nil {
			update(ctx, obj, old)
		}
	}
	if t.Reset == nil {
		t.Reset = ResetSpecAndMetadata
	}
	return Status(t)
}
