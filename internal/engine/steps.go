package engine

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/kanzen-io/kanzen/internal/base/span"
	"github.com/kanzen-io/kanzen/internal/request"
)

// This file traces requests: a span for each verb, and in it events for the
// verb's steps and spans for operations that may take long.

// verbs are the names that verbs have in traces: of their spans, and in attributes.
var verbs = map[string]struct{ span, name string }{
	"get": {"Get", "GET"}, "list": {"List", "LIST"}, "create": {"Create", "POST"}, "update": {"Update", "PUT"},
	"patch": {"Patch", "PATCH"}, "delete": {"Delete", "DELETE"}, "deletecollection": {"Delete", "DELETECOLLECTION"},
	"watch": {"WatchList", "WATCH"},
}

// trace begins the span of the request's verb, which lasts until it is ended or
// the request is answered. A watch has a span only if it begins with a list:
// the span of that list.
func (c *call) trace() {
	v := verbs[c.info.Verb]
	if v.span == "" {
		return
	}
	ctx, s := span.Start(c.req.Context(), v.span)
	if !s.On() {
		return
	}
	i, name := c.info, v.name
	if i.Verb == "patch" && strings.HasPrefix(c.req.Header.Get("Content-Type"), string(types.ApplyYAMLPatchType)) {
		name = "APPLY"
	}
	scope := "cluster"
	switch {
	case i.Name != "" || i.Verb == "create":
		scope = "resource"
	case i.Namespace != "":
		scope = "namespace"
	}
	client := ""
	if ip := utilnet.GetClientIP(c.req); ip != nil {
		client = ip.String()
	}
	s.Set(attribute.String("accept", c.req.Header.Get("Accept")), attribute.String("audit-id", request.AuditIDFrom(ctx)),
		attribute.String("client", client), attribute.String("api-group", i.Group), attribute.String("api-version", i.Version),
		attribute.String("name", i.Name), attribute.String("subresource", i.Subresource), attribute.String("namespace", i.Namespace),
		attribute.String("protocol", c.req.Proto), attribute.String("resource", i.Resource), attribute.String("scope", scope),
		attribute.String("url", c.req.URL.Path), attribute.String("user-agent", c.req.UserAgent()), attribute.String("verb", name))
	c.req, c.span = c.req.WithContext(ctx), s
}

// body reads the request's body.
func (c *call) body() ([]byte, error) {
	b, err := c.e.readBody(c.req)
	if err != nil {
		c.span.Event("limitedReadBody failed")
		return nil, err
	}
	c.span.EventLen("limitedReadBody succeeded", "len", len(b))
	return b, nil
}

// converted returns the object of a write as a hub object.
func (c *call) converted(ctx context.Context, in input, fieldValidation string) (Object, error) {
	c.span.Event("About to convert to expected version")
	obj, err := c.sent(ctx, in, fieldValidation)
	if err == nil {
		c.span.Event("Conversion done")
	}
	return obj, err
}

// sent makes a hub object of the input of a write: a Go object from inside the
// process, or a body.
func (c *call) sent(ctx context.Context, in input, fieldValidation string) (Object, error) {
	if l := request.LocalFrom(c.req); l != nil && l.Object != nil {
		obj, ok := l.Object.DeepCopyObject().(Object)
		if !ok {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("%T has no metadata", l.Object))
		}
		obj.GetObjectKind().SetGroupVersionKind(c.GVK)
		return c.incoming(ctx, obj)
	}
	return c.decode(ctx, in.body, in.media, fieldValidation)
}

// traceStored records in the trace whether the object of a write was stored.
func (c *call) traceStored(in input, err error) {
	if err != nil {
		c.span.EventLen("Write to database call failed", "len", len(in.body))
		return
	}
	c.span.EventLen("Write to database call succeeded", "len", len(in.body))
}

// reading begins a span for a read from the views. Name is kube-apiserver's
// name for such a span.
func (c *call) reading(ctx context.Context, name, key, resourceVersion string) (context.Context, span.Span) {
	ctx, s := span.Start(ctx, name)
	if s.On() {
		s.Set(attribute.String("audit-id", request.AuditIDFrom(ctx)), attribute.String("type", c.gr().String()),
			attribute.String("key", "/"+c.R.Prefix+"/"+key), attribute.String("resource-version", resourceVersion))
	}
	return ctx, s
}

// answering is the span of making and sending an answer.
type answering struct {
	span.Span
	verb span.Span
	w    http.ResponseWriter
}

// answers begins the span of the answer.
func (c *call) answers() answering {
	c.span.Event("About to write a response")
	ctx, s := span.Start(c.req.Context(), "SerializeObject")
	if s.On() {
		s.Set(attribute.String("audit-id", request.AuditIDFrom(ctx)), attribute.String("method", c.req.Method),
			attribute.String("url", c.req.URL.Path), attribute.String("protocol", c.req.Proto))
	}
	return answering{s, c.span, c.w}
}

// End ends the span.
func (a answering) End() {
	if a.On() {
		a.Set(attribute.String("mediaType", a.w.Header().Get("Content-Type")))
	}
	a.Span.End()
	a.verb.Event("Writing http response done")
}
