// Package history has the resource by which the past of an object is deleted for good.
package history

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/admission"
	"github.com/kanzen-io/kanzen/internal/engine"
	v1 "github.com/kanzen-io/kanzen/internal/history/v1"
)

// Resources returns the resource. forget drops all that is known of an object but what it is now, and reports whether there was anything;
// served is false if there is no such resource.
func Resources(forget func(ctx context.Context, of v1.ForgottenSpec) (found, served bool, err error)) []*engine.Resource {
	gv := v1.GroupVersion
	return []*engine.Resource{{
		Plural: "forgotten", Singular: "forgotten", Kind: "Forgotten", Hub: gv, Verbs: []string{"create"},
		Versions: []*engine.Version{engine.VersionOf[v1.Forgotten, v1.ForgottenList](gv, nil)},
		Create: func(ctx context.Context, obj engine.Object, o *metav1.CreateOptions) (engine.Object, error) {
			f := obj.(*v1.Forgotten)
			if f.Spec.Resource == "" || f.Spec.Name == "" {
				return nil, apierrors.NewBadRequest("spec: resource and name say whose history is to be deleted")
			}
			if admission.IsDryRun(o.DryRun) {
				return f, nil
			}
			found, served, err := forget(ctx, f.Spec)
			switch {
			case err != nil:
				return nil, apierrors.NewInternalError(err)
			case !served:
				return nil, apierrors.NewBadRequest(fmt.Sprintf("spec: there is no resource %q in group %q", f.Spec.Resource, f.Spec.Group))
			}
			f.Status.Found = found
			return f, nil
		},
	}}
}
