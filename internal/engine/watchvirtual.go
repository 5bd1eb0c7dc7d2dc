package engine

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kanzen-io/kanzen/internal/request"
)

// watchVirtual streams the events of a virtual resource.
func (c *call) watchVirtual(out output, o *internalversion.ListOptions) error {
	if c.R.Watch == nil {
		return c.methodNotAllowed()
	}
	if err := c.refuseForComputed(); err != nil {
		return err
	}
	if isList := o.SendInitialEvents != nil && *o.SendInitialEvents && o.AllowWatchBookmarks; isList {
		// Clients then list and watch. Without bookmarks it is what the defaults of a watch from the start say.
		return apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "ListOptions"}, "", field.ErrorList{
			field.Forbidden(field.NewPath("sendInitialEvents"), "is not supported for this resource")})
	}
	selects, err := c.selectsVirtual(o)
	if err != nil {
		return err
	}
	if out.shape == shapeTable {
		if _, err := c.includeObject(out); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(c.req.Context(), c.watchTimeout(o))
	defer cancel()
	s := &watchStream{call: c, began: time.Now(), counts: c.e.Metrics.of(c.GVR), progress: request.Watch(ctx), out: out}
	after := o.ResourceVersion
	if after == "0" {
		after = ""
	}
	run := func(ctx context.Context) error {
		request.Watching(ctx)
		err := c.R.Watch(ctx, after, func(t watch.EventType, objs ...Object) error {
			for n, obj := range objs {
				if err := ended(ctx, n); err != nil {
					return err
				}
				if !selects(obj) {
					continue
				}
				if err := s.virtualFrame(t, obj); err != nil {
					return err
				}
			}
			return s.flush()
		})
		if err == nil || ctx.Err() != nil {
			return nil
		}
		return s.sendError(err)
	}
	if isWebSocket(c.req) {
		return s.overSocket(ctx, run)
	}
	s.begin(false)
	return run(ctx)
}

// virtualFrame sends an event of an object that is stored nowhere.
func (s *watchStream) virtualFrame(t watch.EventType, obj Object) error {
	switch s.out.shape {
	case shapeTable:
		return s.tableFrame(t, obj)
	case shapePartial:
		return s.anyFrame(t, s.partialOf(obj, s.out))
	}
	obj.GetObjectKind().SetGroupVersionKind(s.GVK)
	return s.anyFrame(t, obj)
}
