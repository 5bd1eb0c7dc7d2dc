package store

import (
	"errors"
	"testing"
)

// A guarded write happens if its mark was not set since. Its error says whether
// the mark or the object itself has changed.
func TestGuards(t *testing.T) { each(t, testGuards) }

func testGuards(t *testing.T, open opener) {
	s := run(t, open(t))
	v := s.View(things)
	ctx := t.Context()
	created := create(t, v, "a", "1")
	none := Guard{Mark: "m", Rev: created.Rev}
	b, err := v.Create(ctx, "b", Write{Value: []byte("1")}, none)
	if err != nil {
		t.Fatal("a mark that was never set:", err)
	}
	mark, err := s.Mark(ctx, "m")
	if err != nil {
		t.Fatal(err)
	}
	if mark != b.Rev+1 {
		t.Errorf("marked at %d, after %d", mark, b.Rev)
	}
	late := Guard{Mark: "m", Rev: mark}
	var conflict *ConflictError
	if _, err := v.Create(ctx, "c", Write{Value: []byte("1")}, none); !errors.Is(err, ErrVoid) {
		t.Errorf("create after the mark: %v", err)
	}
	if _, err := v.Create(ctx, "b", Write{Value: []byte("1")}, none); !errors.Is(err, ErrExists) {
		t.Errorf("create of what exists after the mark: %v", err)
	}
	if _, err := v.Update(ctx, b, Write{Value: []byte("2")}, none); !errors.Is(err, ErrVoid) {
		t.Errorf("update after the mark: %v", err)
	}
	two, err := v.Update(ctx, b, Write{Value: []byte("2")}, late)
	if err != nil {
		t.Fatal("update relying on the mark itself:", err)
	}
	if _, err := v.Update(ctx, b, Write{Value: []byte("3")}, none); !errors.As(err, &conflict) || conflict.Current.Rev != two.Rev {
		t.Errorf("update of what has changed, after the mark: %v", err)
	}
	if err := s.Unmark(ctx, "m"); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Create(ctx, "c", Write{Value: []byte("1")}, none); err != nil {
		t.Error("create after the mark was removed:", err)
	}
}
