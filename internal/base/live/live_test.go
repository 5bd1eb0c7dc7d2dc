package live

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A value is derived on request, and again only after a change.
func TestValue(t *testing.T) {
	changes, made := int64(7), 0
	v := New(func() int64 { return changes }, func() int { made++; return made })
	if made != 0 {
		t.Error("made before it was asked for")
	}
	for _, want := range []int{1, 1} {
		if got := v.Get(); got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	}
	changes += 1000
	if got := v.Get(); got != 2 || made != 2 {
		t.Errorf("after a thousand changes: got %d, made %d times", got, made)
	}
}

// A derived value is derived again only after an object has changed, and gets
// the value before; an error is not kept.
func TestDerived(t *testing.T) {
	revision, made := int64(1), 0
	var fail error
	d := &Derived[int64, []int]{
		Revision: func(context.Context) (int64, error) { return revision, fail },
		Make: func(_ context.Context, was []int) ([]int, error) {
			made++
			if revision == 3 {
				return nil, errors.New("cannot be made")
			}
			return append(was, made), nil
		},
	}
	get := func(want int) {
		t.Helper()
		if got, err := d.Get(t.Context()); err != nil || len(got) != want {
			t.Errorf("got %v, %v; want %d of them", got, err, want)
		}
	}
	get(1)
	get(1)
	revision = 2
	get(2)
	revision = 3
	if _, err := d.Get(t.Context()); err == nil {
		t.Error("no error")
	}
	revision = 2
	get(2)
	fail = errors.New("the revision cannot be read")
	if _, err := d.Get(t.Context()); !errors.Is(err, fail) {
		t.Errorf("got %v", err)
	}
	if made != 3 {
		t.Errorf("made %d times", made)
	}
}

// slow is a Derived whose Make waits for the test. Its revision is that in a reader's context, or else the newest.
type slow struct {
	Derived[int64, int64]
	newest, made   atomic.Int64
	began, release chan struct{}
}

type seenKey struct{}

func newSlow() *slow {
	s := &slow{began: make(chan struct{}, 100), release: make(chan struct{})}
	s.Revision = func(ctx context.Context) (int64, error) {
		if seen, ok := ctx.Value(seenKey{}).(int64); ok {
			return seen, nil
		}
		return s.newest.Load(), nil
	}
	s.Make = func(ctx context.Context, _ int64) (int64, error) {
		at := s.newest.Load()
		s.made.Add(1)
		s.began <- struct{}{}
		select {
		case <-s.release:
			return at, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return s
}

// get reads in the background.
func (s *slow) get(ctx context.Context) <-chan error {
	out := make(chan error, 1)
	want, err := s.Revision(ctx)
	if err != nil {
		out <- err
		return out
	}
	go func() {
		got, err := s.Get(ctx)
		if err == nil && got < want {
			err = errors.New("older than the data at the call")
		}
		out <- err
	}()
	return out
}

func ended(t *testing.T, what string, c <-chan error) error {
	t.Helper()
	select {
	case err := <-c:
		return err
	case <-time.After(time.Minute):
		t.Fatal(what + " waits")
		return nil
	}
}

// A reader whose value is current waits for nobody, and one that waits for another stops when its context ends.
func TestNobodyWaitsInVain(t *testing.T) {
	s := newSlow()
	first := s.get(t.Context())
	<-s.began
	s.release <- struct{}{}
	if err := ended(t, "the first reader", first); err != nil {
		t.Fatal(err)
	}
	s.newest.Store(1)
	maker := s.get(t.Context())
	<-s.began
	if err := ended(t, "a reader whose value is current", s.get(context.WithValue(t.Context(), seenKey{}, int64(0)))); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	other := s.get(ctx)
	cancel()
	if err := ended(t, "a reader that has given up", other); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(s.release)
	if err := ended(t, "the reader that makes", maker); err != nil || s.made.Load() != 2 {
		t.Errorf("made %d times, %v", s.made.Load(), err)
	}
}

// Readers that need the same value share the work; one that comes after a change is not content with that.
func TestSharedMaking(t *testing.T) {
	s := newSlow()
	var readers []<-chan error
	for range 20 {
		readers = append(readers, s.get(t.Context()))
	}
	<-s.began
	s.newest.Store(1)
	for range 20 {
		readers = append(readers, s.get(t.Context()))
	}
	close(s.release)
	for _, r := range readers {
		if err := ended(t, "a reader", r); err != nil {
			t.Error(err)
		}
	}
	if n := s.made.Load(); n != 2 {
		t.Errorf("made %d times for two revisions", n)
	}
}

// If the reader that makes a value gives up, another one makes it.
func TestMakerGivesUp(t *testing.T) {
	s := newSlow()
	ctx, cancel := context.WithCancel(t.Context())
	maker := s.get(ctx)
	<-s.began
	other := s.get(t.Context())
	cancel()
	if err := ended(t, "the reader that makes", maker); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(s.release)
	if err := ended(t, "the other reader", other); err != nil {
		t.Error(err)
	}
}

// A panic concerns the reader that makes the value, and nobody else.
func TestMakerPanics(t *testing.T) {
	began, release, panics := make(chan struct{}), make(chan struct{}), true
	v := New(func() int64 { return 0 }, func() int {
		if panics {
			panics = false
			close(began)
			<-release
			panic("cannot be made")
		}
		return 7
	})
	maker, other := make(chan any, 1), make(chan int, 1)
	go func() {
		defer func() { maker <- recover() }()
		v.Get()
	}()
	<-began
	go func() { other <- v.Get() }()
	close(release)
	if p := <-maker; p != "cannot be made" {
		t.Errorf("got %v", p)
	}
	if got := <-other; got != 7 {
		t.Errorf("got %d", got)
	}
}

// However many read and change, no reader gets a value older than its call.
func TestNeverOlder(t *testing.T) {
	var changes atomic.Int64
	v := New(changes.Load, changes.Load)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 2000 {
				if want := changes.Add(1); v.Get() < want {
					t.Errorf("a value older than change %d", want)
					return
				}
			}
		})
	}
	group.Wait()
}
