package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/kanzen-io/kanzen/internal/admission"
	"github.com/kanzen-io/kanzen/internal/store"
)

// A write whose reservation is void renews it before it is stored.
func TestReserved(t *testing.T) {
	refused := errors.New("exceeded quota")
	for _, c := range []struct {
		name   string
		marks  int // how often the usage is counted in between
		renew  error
		want   error
		writes int
	}{
		{"nobody counts", 0, nil, nil, 1},
		{"somebody counts twice", 2, nil, nil, 3},
		{"used up by others in between", 1, refused, refused, 1},
		{"without end", 1 << 20, nil, store.ErrVoid, renewals + 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &admission.Reservation{Mark: "m", Rev: 10}
			r.Renew = func(context.Context) error {
				r.Rev++
				return c.renew
			}
			writes := 0
			_, err := reserved(t.Context(), r, func(g ...store.Guard) (*store.Item, error) {
				if want := (store.Guard{Mark: "m", Rev: int64(10 + writes)}); len(g) != 1 || g[0] != want {
					t.Errorf("guards %v, want %v", g, want)
				}
				if writes++; writes <= c.marks {
					return nil, store.ErrVoid
				}
				return &store.Item{}, nil
			})
			if !errors.Is(err, c.want) || writes != c.writes {
				t.Errorf("%v after %d writes, want %v after %d", err, writes, c.want, c.writes)
			}
		})
	}
}
