package exports

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/server/controlplane"
	"github.com/kanzen-io/kanzen/internal/wire/apiclient"
)

// This file has the controller's requests to planes.

// manager is the field manager of the controller.
const manager = "kanzen-exports"

// api makes requests to one plane, which wake it.
type api struct{ apiclient.Client }

func (e *Exports) api(plane string) api {
	return through(e.Planes.Transport(plane, controlplane.Itself()))
}

func through(t http.RoundTripper) api { return api{apiclient.Client{RoundTripper: t, Agent: manager}} }

// provider is the user that an export is in the planes that bind it.
func provider(r ref) user.Info {
	return &user.DefaultInfo{Name: userPrefix + r.plane + ":" + r.name}
}

// userPrefix begins the names of the users that exports are.
const userPrefix = "system:kanzen:export:"

const ownPath = "/apis/" + Group + "/" + Version + "/"

// status writes the status of an export or a binding.
func (a api) status(ctx context.Context, resource, name string, uid types.UID, status any) error {
	patch := map[string]any{"metadata": map[string]any{"uid": uid}, "status": status}
	err := a.Do(ctx, http.MethodPatch, ownPath+resource+"/"+name+"/status", apiclient.MergePatch, patch, nil)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// finalizers sets those of a binding as it was seen.
func (a api) finalizers(ctx context.Context, b *Binding, finalizers []string) error {
	var now Binding
	path := ownPath + "bindings/" + b.Name
	if err := a.Do(ctx, http.MethodGet, path, "", nil, &now); err != nil || now.UID != b.UID {
		return ignoreMissing(err)
	}
	patch := map[string]any{"metadata": map[string]any{"finalizers": finalizers, "uid": b.UID, "resourceVersion": now.ResourceVersion}}
	return ignoreMissing(a.Do(ctx, http.MethodPatch, path, apiclient.MergePatch, patch, nil))
}

// apply makes an object what it is to be.
func (a api) apply(ctx context.Context, path string, object any) error {
	return a.Do(ctx, http.MethodPatch, path+"?force=true&fieldManager="+manager, apiclient.ApplyPatch, object, nil)
}

// remove deletes the object of a UID.
func (a api) remove(ctx context.Context, path string, uid types.UID) error {
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
	options.Kind, options.APIVersion = "DeleteOptions", "v1"
	return ignoreMissing(a.Do(ctx, http.MethodDelete, path, apiclient.JSON, options, nil))
}

func ignoreMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// setCondition sets a condition as of a generation.
func (e *Exports) setCondition(all *[]metav1.Condition, c metav1.Condition, generation int64) {
	c.ObservedGeneration, c.LastTransitionTime = generation, metav1.NewTime(e.Clock.Now().Truncate(1e9))
	meta.SetStatusCondition(all, c)
}
