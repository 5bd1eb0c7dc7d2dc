package planes

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// bounded is a plane's log that takes no more than its limits. It counts what it is given, as if nothing were deleted or replaced, and
// looks at what is stored before it refuses anything.
type bounded struct {
	store.DB
	prefix string
	usage  func(ctx context.Context, prefix string) (objects, bytes int64, err error)
	clock  clock.PassiveClock
	// refused counts writes that were refused; wrote says that something was written since it was cleared.
	refused *atomic.Int64
	wrote   atomic.Bool

	mu             sync.Mutex
	most           Limits    // guarded by mu, as are all below
	objects, bytes int64     // at most, now
	counted        time.Time // when that was what is stored; zero: never
}

// recount is how often at most all keys are counted.
const recount = time.Second

// bound sets the limits.
func (b *bounded) bound(l Limits) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.most = l
}

// Commit is part of store.DB.
func (b *bounded) Commit(ctx context.Context, t kv.Txn) (kv.Committed, error) {
	if err := b.admit(ctx, &t); err != nil {
		if apierrors.IsForbidden(err) {
			b.refused.Add(1)
		}
		return kv.Committed{}, err
	}
	b.wrote.Store(true)
	return b.DB.Commit(ctx, t)
}

// admit counts what a transaction puts, or refuses it.
func (b *bounded) admit(ctx context.Context, t *kv.Txn) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.most.Objects == 0 && b.most.Bytes == 0 {
		return nil
	}
	objects, size := int64(0), int64(0)
	for _, o := range t.Then {
		if !o.Delete {
			objects += created(t, o.Key)
			size += int64(len(o.Value))
		}
	}
	if objects == 0 && size == 0 {
		return nil // deletions make room
	}
	if (b.counted.IsZero() || b.over(objects, size) != nil) && b.clock.Since(b.counted) >= recount {
		var err error
		if b.objects, b.bytes, err = b.usage(ctx, b.prefix); err != nil {
			return err
		}
		b.counted = b.clock.Now()
	}
	if err := b.over(objects, size); err != nil {
		return err
	}
	b.objects, b.bytes = b.objects+objects, b.bytes+size
	return nil
}

// created is 1 if a transaction says that a key must not exist.
func created(t *kv.Txn, key string) int64 {
	for _, c := range t.If {
		if c.Key == key && c.Is == kv.ModRevision && c.N == 0 {
			return 1
		}
	}
	return 0
}

// over returns why so much more is too much. An object that is there may be changed when there are too many, and a little beyond the
// limit of bytes: to be deleted it may have to be.
func (b *bounded) over(objects, size int64) error {
	if objects == 0 {
		size -= b.most.Bytes / 10
	}
	switch {
	case b.most.Objects > 0 && objects > 0 && b.objects+objects > b.most.Objects:
		return full(fmt.Sprintf("it may have %d objects", b.most.Objects))
	case b.most.Bytes > 0 && b.bytes+size > b.most.Bytes:
		return full(fmt.Sprintf("its objects may have %d bytes", b.most.Bytes))
	}
	return nil
}

// full is the refusal of a write, as that of a quota.
func full(why string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Message: "exceeded the limits of the control plane: " + why}}
}
