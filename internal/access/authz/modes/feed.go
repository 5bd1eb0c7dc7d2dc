package modes

import (
	"context"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/store"
)

// Follow calls set for each existing, added or changed object of a resource, and remove for each deleted one, until ctx
// ends. It returns at once, and calls ended after its last call. It calls caught after the existing objects, and maybe later, with
// how far it has come. An object that cannot be decoded is removed. part, if it is not nil, cuts objects in
// protobuf, without their type, down to what is to be decoded; changes of the rest are left out. Each change comes with its revision.
type Follow func(ctx context.Context, ended func(), resource schema.GroupResource, part func(object []byte) []byte,
	set func(rev int64, o metav1.Object), remove func(rev int64, namespace, name string), caught func(*store.Progress))

// feed keeps an index up to date with the objects of some resources.
type feed struct {
	sources []source
	ready   chan struct{} // closed when all resources have been read once
	// progress is how far each source has come. It is complete once ready is closed.
	progress []*store.Progress
}

// source is one resource and the funcs that pass its objects to the index.
type source struct {
	resource schema.GroupResource
	set      func(rev int64, o metav1.Object)
	remove   func(rev int64, namespace, name string)
	part     func(object []byte) []byte // nil: objects are decoded whole
}

func newFeed(sources ...source) *feed {
	return &feed{sources: sources, ready: make(chan struct{}), progress: make([]*store.Progress, len(sources))}
}

// begin follows the resources until ctx ends; following counts what has not ended.
func (f *feed) begin(ctx context.Context, follow Follow, following *sync.WaitGroup) {
	left := new(atomic.Int64)
	left.Store(int64(len(f.sources)))
	for n, s := range f.sources {
		following.Add(1)
		known := sync.OnceFunc(func() {
			if left.Add(-1) == 0 {
				close(f.ready)
			}
		})
		follow(ctx, func() { known(); following.Done() }, s.resource, s.part, s.set, s.remove, func(p *store.Progress) {
			if f.progress[n] == nil {
				f.progress[n] = p
			}
			known()
		})
	}
}

// reach returns once the index reflects the log up to a revision; where the objects are in another log, everything that was acknowledged.
func (f *feed) reach(ctx context.Context, log *store.Store, rev int64) error {
	select {
	case <-f.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, p := range f.progress {
		switch {
		case p == nil: // the server stops
			return context.Canceled
		case p.View().Store() != log:
			if err := p.CatchUp(ctx); err != nil {
				return err
			}
		default:
			if err := p.Reach(ctx, rev); err != nil {
				return err
			}
		}
	}
	return nil
}

// changed is the revision of the newest change of any of the objects.
func (f *feed) changed(ctx context.Context) (newest int64, err error) {
	for _, p := range f.progress {
		if p == nil {
			return 0, context.Canceled
		}
		rev, err := p.View().Changed(ctx)
		if err != nil {
			return 0, err
		}
		newest = max(newest, rev)
	}
	return newest, nil
}

// since is the revision before which nothing is known of any of the objects.
func (f *feed) since() (newest int64) {
	for _, p := range f.progress {
		if p != nil {
			newest = max(newest, p.Since())
		}
	}
	return newest
}

// in reports whether all objects are in a log.
func (f *feed) in(log *store.Store) bool {
	for _, p := range f.progress {
		if p == nil || p.View().Store() != log {
			return false
		}
	}
	return true
}
