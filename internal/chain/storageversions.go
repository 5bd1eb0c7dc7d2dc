package chain

import (
	"fmt"
	"net/http"
	"slices"

	internalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/request"
)

// Untold reports whether it has not been told yet in which version this server stores a resource, and the last error of telling it.
type Untold func(schema.GroupResource) (untold bool, last error)

// StorageVersions refuses writes to a resource until it has been told in which version this server stores it: whoever migrates
// objects must not miss one. What telling that needs itself, namespaces and the leases of servers, may be written.
func StorageVersions(untold Untold, writeError ErrorWriter) Filter {
	if untold == nil {
		return nil
	}
	return func(next Handler) Handler {
		return func(w http.ResponseWriter, r *http.Request) {
			i := request.InfoFrom(r.Context())
			if !i.IsResource || slices.Contains([]string{"get", "list", "watch"}, i.Verb) || firstOfAll(i, request.UserFrom(r.Context())) {
				next(w, r)
				return
			}
			of := schema.GroupResource{Group: i.Group, Resource: i.Resource}
			if waits, last := untold(of); waits {
				writeError(w, r, apierrors.NewServiceUnavailable(fmt.Sprintf("wait for storage version registration to complete for resource: %v, last seen error: %v", of, last)))
				return
			}
			next(w, r)
		}
	}
}

// firstOfAll reports whether a write must come before the storage versions.
func firstOfAll(i *request.Info, u user.Info) bool {
	switch (schema.GroupResource{Group: i.Group, Resource: i.Resource}) {
	case schema.GroupResource{Group: internalv1alpha1.GroupName, Resource: "storageversions"}:
		return true
	case schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"}:
		return i.Namespace == metav1.NamespaceSystem
	case schema.GroupResource{Resource: "namespaces"}:
		return i.Verb == "create" && u != nil && u.GetName() == user.APIServerUser && slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup)
	}
	return false
}
