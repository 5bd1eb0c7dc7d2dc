package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// deleteWorkers is how many objects of a collection are deleted at a time.
const deleteWorkers = 4

// deleteCollection deletes the selected objects, each by itself, and answers
// with the list of the objects it found. It is not a transaction.
func (c *call) deleteCollection() error {
	can := c.restrict()
	can.partial = "PartialObjectMetadataList"
	out, err := negotiate(c.req, can)
	if err != nil {
		return err
	}
	o, err := c.listOptions()
	if err != nil {
		return err
	}
	options, err := c.deleteOptions()
	if err != nil {
		return err
	}
	if wantsUnsafe(options) {
		return invalidUnsafe(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", "is not allowed with DELETECOLLECTION, try again after removing the option")
	}
	ctx := c.req.Context()
	if f := c.R.Rules.WarnDelete; f != nil {
		request.AddWarning(ctx, f(options))
	}
	p, err := c.page(ctx, o)
	if err != nil {
		return c.storeError(err, "")
	}
	work := make(chan *store.Item)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for range min(deleteWorkers, len(p.items)) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range work {
				if err := c.removeOne(ctx, i, options); err != nil && !apierrors.IsNotFound(err) {
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
				}
			}
		}()
	}
	for _, i := range p.items {
		mu.Lock()
		if failed == nil {
			failed = c.storeError(ctx.Err(), "")
		}
		stop := failed != nil
		mu.Unlock()
		if stop {
			break
		}
		work <- i
	}
	close(work)
	wg.Wait()
	if p := (*workerPanic)(nil); errors.As(failed, &p) {
		panic(p) // in the request's goroutine, where panics are recovered
	}
	if failed != nil {
		return failed
	}
	defer c.answers().End()
	if request.LocalFrom(c.req) != nil {
		st := &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusOK}
		st.SetGroupVersionKind(statusGVK)
		return writeAny(c.w, c.req, http.StatusOK, out, st)
	}
	return c.storeError(c.writeList(out, p), "")
}

// workerPanic is a panic in a worker, passed on to the request's goroutine,
// which alone recovers panics.
type workerPanic struct {
	fault any
	stack []byte
}

// Error is part of error.
func (p *workerPanic) Error() string { return fmt.Sprintf("%v\n%s", p.fault, p.stack) }

// removeOne deletes one object of the collection.
func (c *call) removeOne(ctx context.Context, i *store.Item, options *metav1.DeleteOptions) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = &workerPanic{fault, debug.Stack()}
		}
	}()
	one := c.write
	one.namespace, one.name, one.collection = i.Namespace(), i.Name(), true
	if links, err := LinksOf(i.Value()); err == nil { // what cannot be read has no UID
		// The object that was selected, not another one that has its name by now.
		one.which = request.Same(&metav1.ObjectMeta{Namespace: one.namespace, Name: one.name, UID: links.UID})
	}
	_, err = one.removeObject(ctx, options)
	return one.storeError(err, one.name)
}
