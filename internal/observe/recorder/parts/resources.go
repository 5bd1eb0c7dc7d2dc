package parts

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/access/authz/modes"
	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/observe/recorder"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Resources returns the resources by which a recorder is read, none if it is nil. found returns what is wrong now.
func Resources(r *recorder.Recorder, a *modes.Set, objects *catalog.Raw, p recorder.Parts,
	found func(ctx context.Context, may func(v1alpha1.ObjectReference) bool) []*v1alpha1.Finding) []*engine.Resource {
	if r == nil {
		return nil
	}
	may := authz.Require(a)
	return r.Resources(recorder.Deps{
		MayGet: func(ctx context.Context, o v1alpha1.ObjectReference) error {
			return may(ctx, &request.Info{IsResource: true, Verb: "get", Group: o.Group, Version: "*", Resource: o.Resource, Namespace: o.Namespace, Name: o.Name})
		},
		Explain: func(ctx context.Context, spec *authorizationv1.SubjectAccessReviewSpec) (v1alpha1.AccessExplanationStatus, error) {
			return Explain(ctx, a, authz.ForReview(spec))
		},
		Parts:    p,
		Findings: found,
		Asked:    Asked(objects),
	})
}
