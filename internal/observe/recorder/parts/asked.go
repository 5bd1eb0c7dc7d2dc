package parts

import (
	"context"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Asked returns what says whether a webhook, policy or definition still exists. What cannot be read may.
func Asked(objects *catalog.Raw) func(ctx context.Context, kind, name, phase string) bool {
	return func(ctx context.Context, kind, name, phase string) bool {
		return there(ctx, objects, kind, name, phase)
	}
}

func there(ctx context.Context, objects *catalog.Raw, kind, name, phase string) bool {
	if kind == request.StepConversion {
		return stored(ctx, objects, schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}, name)
	}
	which := "validating"
	if phase == "admit" {
		which = "mutating"
	}
	resource := which + "admissionpolicies"
	if kind == request.StepWebhook {
		resource = which + "webhookconfigurations"
	}
	name, _, _ = strings.Cut(name, "/") // behind it stands the webhook, or the binding of a mutating policy
	return stored(ctx, objects, schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: resource}, name)
}

func stored(ctx context.Context, objects *catalog.Raw, gr schema.GroupResource, name string) bool {
	v, err := objects.View(gr)
	if err != nil {
		return true
	}
	i, err := v.Get(ctx, name)
	return i != nil || err != nil && !errors.Is(err, store.ErrNotFound)
}
