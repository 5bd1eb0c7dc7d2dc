package openapi

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/api/openapi"
	"github.com/kanzen-io/kanzen/internal/base/live"
	"github.com/kanzen-io/kanzen/internal/engine"
)

// Others have the documents of extension servers. DocumentChanges counts their changes.
type Others interface {
	OpenAPI() []openapi.Part
	DocumentChanges() int64
}

// All returns the handler of the documents of everything served: docs, those of others, and of the catalog's custom resources, which others
// come before because they hide them. own are resources that are neither custom nor in docs; they are described, as of a time, when
// somebody asks for a document.
func All(docs *openapi.Set, c *catalog.Live, others Others, own []*engine.Resource, now time.Time, log *slog.Logger) *openapi.Handler {
	builder := NewBuilder(docs)
	first := sync.OnceValue(func() []openapi.Part {
		parts, err := builder.Derived(now, own)
		if err != nil {
			log.Error("the server's own kinds have no OpenAPI document", "error", err)
		}
		return parts
	})
	changes := func() int64 { return c.Changes() + others.DocumentChanges() }
	all := live.New(changes, func() *openapi.Set {
		return docs.With(slices.Concat(first(), others.OpenAPI(), builder.Parts(c.Now()))...)
	})
	return openapi.NewHandler(all.Get, log)
}
