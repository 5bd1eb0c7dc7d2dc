package engine

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/store"
)

// A write whose reservation is void renews it before it is stored.
func TestReserved(t *testing.T) {
	refused := errors.New("exceeded quota")
	for _, c := range []struct {
		name     string
		marks    int // how often the usage is counted anew before the reservation holds
		renew    error
		want     error
		renewals int
	}{
		{"nobody counts", 0, nil, nil, 0},
		{"somebody counts twice", 2, nil, nil, 2},
		{"used up by others in between", 1, refused, refused, 1},
		{"without end", 1 << 20, nil, store.ErrVoid, renewals},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := oneThing(t)
			marked, err := x.ep.e.Store.Mark(t.Context(), "m")
			if err != nil {
				t.Fatal(err)
			}
			r, renewed := &admission.Reservation{Mark: "m"}, 0
			holds := func() {
				if renewed >= c.marks {
					r.Rev = marked
				}
			}
			holds()
			r.Renew = func(context.Context) error {
				renewed++
				holds()
				return c.renew
			}
			w := x.ep.local("", "t000")
			found, err := x.ep.View().Latest(t.Context(), "t000")
			if err != nil {
				t.Fatal(err)
			}
			_, err = w.perform(t.Context(), found, true, func(_ context.Context, found *store.Item) (*decision, error) {
				obj, err := x.ep.Decode(t.Context(), found)
				if err != nil {
					return nil, err
				}
				obj.(*unstructured.Unstructured).Object["size"] = "large"
				d, err := w.putting(t.Context(), found, obj, nil)
				if err == nil {
					d.reserved = r
				}
				return d, err
			})
			if !errors.Is(err, c.want) || renewed != c.renewals {
				t.Errorf("%v after %d renewals, want %v after %d", err, renewed, c.want, c.renewals)
			}
			if stored := x.stored("size") == "large"; stored != (c.want == nil) {
				t.Errorf("stored: %t", stored)
			}
		})
	}
}
