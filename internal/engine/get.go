package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/store"
)

// get answers with one object, or its scale.
func (c *call) get() error {
	can := c.restrict()
	if c.sub != nil && c.sub.Scale != nil {
		can = c.restrictScale()
	}
	out, err := negotiate(c.req, can)
	if err != nil {
		return err
	}
	var options metav1.GetOptions
	if err := c.readExport(); err != nil {
		return err
	}
	if err := c.decodeQuery(&options); err != nil {
		return err
	}
	if c.R.Get != nil {
		obj, err := c.R.Get(c.req.Context(), c.name)
		if err != nil {
			return err
		}
		obj.GetObjectKind().SetGroupVersionKind(c.GVK)
		defer c.answers().End()
		return c.writeObject(200, out, obj)
	}
	c.span.Event("About to Get from storage")
	var i *store.Item
	if c.past {
		i, err = c.getPast(c.req.Context(), options.ResourceVersion)
	} else {
		i, err = c.read(c.req.Context(), c.key(c.name), options.ResourceVersion)
	}
	if err != nil {
		return c.storeError(err, c.name)
	}
	defer c.answers().End()
	if c.sub != nil && c.sub.Scale != nil {
		return c.writeScaleOf(out, i)
	}
	err = c.writeItem(out, i)
	if err != nil {
		return cmp.Or(c.corruptItem(c.req.Context(), i), err)
	}
	return nil
}

// readExport refuses the export parameter, which was removed from the API.
func (c *call) readExport() error {
	if c.req.URL.RawQuery == "" {
		return nil
	}
	if q := c.req.URL.Query(); len(q["export"]) > 0 && q.Get("export") != "false" && q.Get("export") != "0" {
		return apierrors.NewBadRequest("the export parameter, deprecated since v1.14, is no longer supported")
	}
	return nil
}

// read returns the item at a key: the newest for an empty resourceVersion, any
// for "0", else one at least as new as that.
func (c *call) read(ctx context.Context, key, resourceVersion string) (*store.Item, error) {
	ctx, s := c.reading(ctx, "cacher.Get", key, resourceVersion)
	defer s.End()
	if err := c.awaitRevision(ctx, resourceVersion); err != nil {
		return nil, err
	}
	return c.view.Get(ctx, key)
}

// awaitRevision waits until the view is new enough for a resourceVersion.
func (c *call) awaitRevision(ctx context.Context, resourceVersion string) error {
	switch resourceVersion {
	case "":
		return c.view.Fresh(ctx)
	case "0":
		return nil
	}
	rev, err := parseRev(resourceVersion)
	if err != nil && c.R.TTL != nil {
		return apierrors.NewBadRequest(err.Error()) // as kube-apiserver, which does not cache events
	}
	if err != nil {
		return err
	}
	return c.waitFor(ctx, rev)
}

// parseRev reads a resourceVersion of a request. Its error is not an API error:
// each verb has its own.
func parseRev(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	rev, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, field.Invalid(field.NewPath("resourceVersion"), s, fmt.Sprintf("strconv.ParseUint: parsing %q: %v", s, errors.Unwrap(err)))
	}
	return int64(rev), nil
}

// futureWait is how long a read waits for a revision in the future.
const futureWait = 3 * time.Second

// waitFor waits for a revision that a client named.
func (c *call) waitFor(ctx context.Context, rev int64) error {
	if c.view.Store().Revision() >= rev {
		return nil
	}
	wait, cancel := context.WithTimeout(ctx, futureWait)
	defer cancel()
	err := c.view.Store().WaitFor(wait, rev)
	if err != nil && ctx.Err() == nil {
		return tooLargeRevision(rev, c.view.Store().Revision())
	}
	return err
}

// tooLargeRevision is the error for a revision that this server has not
// reached.
func tooLargeRevision(rev, current int64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", rev, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type:    metav1.CauseTypeResourceVersionTooLarge,
		Message: "Too large resource version",
	}}
	return err
}
