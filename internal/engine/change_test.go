package engine

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

// thing is one stored thing whose changes are scripted.
type thing struct {
	t  *testing.T
	ep *Endpoint
	db *memory.DB
	// saw has the objects that the changes were decided on, in order.
	saw []string
}

func oneThing(t *testing.T) *thing {
	ep, _, db := thingsIn(t, 1, 1, 1<<20)
	x := &thing{t: t, ep: ep, db: db}
	if _, err := ep.View().Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	return x
}

// viewed is the thing's color according to the view.
func (x *thing) viewed() string {
	x.t.Helper()
	i, err := x.ep.View().Get(x.t.Context(), "t000")
	if err != nil {
		x.t.Fatal(err)
	}
	obj, err := x.ep.Decode(x.t.Context(), i)
	if err != nil {
		x.t.Fatal(err)
	}
	return fieldOf(obj, "color")
}

// stored is a field of the thing according to the log.
func (x *thing) stored(name string) string {
	x.t.Helper()
	i, err := x.ep.View().Latest(x.t.Context(), "t000")
	if err != nil {
		x.t.Fatal(err)
	}
	obj, err := x.ep.Decode(x.t.Context(), i)
	if err != nil {
		x.t.Fatal(err)
	}
	return fieldOf(obj, name)
}

func fieldOf(obj Object, name string) string {
	s, _, _ := unstructured.NestedString(obj.(*unstructured.Unstructured).Object, name)
	return s
}

// other sets the thing's color as another server.
func (x *thing) other(color string) {
	x.t.Helper()
	v := x.ep.View()
	i, err := v.Latest(x.t.Context(), "t000")
	if err != nil {
		x.t.Fatal(err)
	}
	value := bytes.Replace(i.Value(), []byte(`"red"`), strconv.AppendQuote(nil, color), 1)
	if _, err := x.db.Commit(x.t.Context(), kv.Txn{Then: []kv.Op{{Key: v.Path("t000"), Value: value}}}); err != nil {
		x.t.Fatal(err)
	}
}

var errRefused = errors.New("refused")

// change sets the size of the thing, unless it has the refused color.
func (x *thing) change(ctx context.Context, refused string) error {
	w := x.ep.local("", "t000")
	_, err := w.changeObject(ctx, &change{
		rules: &x.ep.R.Rules, options: &metav1.UpdateOptions{},
		mutate: func(_ context.Context, old Object, _ bool) (Object, error) {
			color := fieldOf(old, "color")
			if x.saw = append(x.saw, color); color == refused {
				return nil, errRefused
			}
			obj := old.DeepCopyObject().(*unstructured.Unstructured)
			obj.Object["size"] = "large"
			return obj, nil
		},
	})
	return err
}

// holdLog stops the view at its revision until the test ends.
func (x *thing) holdLog() {
	held := make(chan struct{})
	x.db.Inject(memory.Fault{Of: memory.Watch, Before: func(ctx context.Context) {
		close(held)
		<-ctx.Done()
	}})
	x.db.Break()
	<-held
}

// holds checks what the changes have seen and what is stored afterwards.
func (x *thing) holds(saw []string, color, size string) {
	x.t.Helper()
	if len(x.saw) != len(saw) {
		x.t.Fatalf("decided on %v, want %v", x.saw, saw)
	}
	for n := range saw {
		if x.saw[n] != saw[n] {
			x.t.Errorf("decided on %v, want %v", x.saw, saw)
		}
	}
	if c, s := x.stored("color"), x.stored("size"); c != color || s != size {
		x.t.Errorf("stored: color %q, size %q; want %q, %q", c, s, color, size)
	}
	if n := x.db.Injected(); n > 0 {
		x.t.Errorf("%d faults did not come", n)
	}
}

// What this process wrote last is what the next change is decided on, though the log has yet to bring it.
func TestChangeAfterOwnWrite(t *testing.T) {
	x := oneThing(t)
	x.holdLog()
	if _, err := x.ep.UpdateObject(t.Context(), request.Named("", "t000"), false, func(obj Object) error {
		obj.(*unstructured.Unstructured).Object["color"] = "blue"
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := x.viewed(); got != "red" {
		t.Fatalf("the view has %s already", got)
	}
	if err := x.change(t.Context(), "red"); err != nil {
		t.Errorf("change: %v", err)
	}
	x.holds([]string{"blue"}, "blue", "large")
}

// A refusal that is based on an old view is decided again on the stored object.
func TestRefusalOnStaleView(t *testing.T) {
	x := oneThing(t)
	x.holdLog()
	x.other("blue")
	if got := x.viewed(); got != "red" {
		t.Fatalf("the view has %s already", got)
	}
	if err := x.change(t.Context(), "red"); err != nil {
		t.Errorf("change: %v", err)
	}
	x.holds([]string{"red", "blue"}, "blue", "large")
}

// A refusal that is based on the stored object is final, and decided once.
func TestRefusalIsFinal(t *testing.T) {
	x := oneThing(t)
	if err := x.change(t.Context(), "red"); !errors.Is(err, errRefused) {
		t.Errorf("change: %v", err)
	}
	x.holds([]string{"red"}, "red", "")
}

// The change of another writer is kept: the own change is made again on it, or
// refused because of it.
func TestConflictIsRetried(t *testing.T) {
	for _, c := range []struct {
		refused, size string
		err           error
	}{{"", "large", nil}, {"blue", "", errRefused}} {
		x := oneThing(t)
		x.db.Inject(memory.Fault{Of: memory.Commit, Before: func(context.Context) { x.other("blue") }})
		if err := x.change(t.Context(), c.refused); !errors.Is(err, c.err) {
			t.Errorf("refusing %q: %v", c.refused, err)
		}
		x.holds([]string{"red", "blue"}, "blue", c.size)
	}
}

// A change of an object that another writer has deleted meanwhile finds
// nothing.
func TestConflictWithDeletion(t *testing.T) {
	x := oneThing(t)
	x.db.Inject(memory.Fault{Of: memory.Commit, Before: func(ctx context.Context) {
		if err := x.ep.DeleteObject(ctx, request.Named("", "t000"), nil); err != nil {
			t.Error(err)
		}
	}})
	if err := x.ep.storeError(x.change(t.Context(), ""), "t000"); !apierrors.IsNotFound(err) {
		t.Errorf("change: %v", err)
	}
}

var errBroken = errors.New("the connection broke")

// A commit that failed is an error; one whose answer was lost was carried out.
func TestAmbiguousCommit(t *testing.T) {
	t.Run("failed", func(t *testing.T) {
		x := oneThing(t)
		x.db.Inject(memory.Fault{Of: memory.Commit, Err: errBroken})
		if err := x.change(t.Context(), ""); !errors.Is(err, errBroken) {
			t.Errorf("change: %v", err)
		}
		x.holds([]string{"red"}, "red", "")
	})
	t.Run("lost", func(t *testing.T) {
		x := oneThing(t)
		x.db.Inject(memory.Fault{Of: memory.Commit, Err: errBroken, Lost: true})
		// It is not repeated: the client decides.
		if err := x.change(t.Context(), ""); !errors.Is(err, errBroken) {
			t.Errorf("change: %v", err)
		}
		x.holds([]string{"red"}, "red", "large")
	})
	t.Run("and unreadable", func(t *testing.T) {
		x := oneThing(t)
		x.db.Inject(memory.Fault{Of: memory.Commit, Err: errBroken, Lost: true})
		x.db.Inject(memory.Fault{Of: memory.Range, Err: errBroken})
		if err := x.change(t.Context(), ""); !errors.Is(err, errBroken) {
			t.Errorf("change: %v", err)
		}
	})
}

// A change whose context ends stops there.
func TestChangeIsCancelled(t *testing.T) {
	x := oneThing(t)
	ctx, cancel := context.WithCancel(t.Context())
	x.db.Inject(memory.Fault{Of: memory.Commit, Before: func(context.Context) { cancel() }})
	if err := x.change(ctx, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("change: %v", err)
	}
	x.holds([]string{"red"}, "red", "")
}

// TestAmbiguousDelete loses the answer to a deletion. It is not repeated: another
// object may have the name by then.
func TestAmbiguousDelete(t *testing.T) {
	x := oneThing(t)
	x.db.Inject(memory.Fault{Of: memory.Commit, Err: errBroken, Lost: true})
	if err := x.ep.DeleteObject(t.Context(), request.Named("", "t000"), nil); !errors.Is(err, errBroken) {
		t.Errorf("delete: %v", err)
	}
	if _, err := x.ep.View().Latest(t.Context(), "t000"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the object: %v", err)
	}
}
