package core

import (
	"context"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/podspec"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Deps is what this group needs from the rest of the server.
type Deps struct {
	// Now is the server's clock.
	Now func() time.Time
	// NewUID returns a random UID.
	NewUID func() types.UID
	// EventTTL is how long events are kept. Zero: forever.
	EventTTL time.Duration
	// Pods is the cluster's policy for pods.
	Pods podspec.Policy
	// Objects reads and changes other objects on behalf of a subresource.
	Objects Objects
	// Addresses and NodePorts allocate for services.
	Addresses Addresses
	NodePorts NodePorts
	// CreateToken serves a token request for a service account. It calls check with the completed request before it signs.
	CreateToken func(ctx context.Context, namespace, account string, r *authenticationv1.TokenRequest, check func(context.Context, *authenticationv1.TokenRequest) error) (*authenticationv1.TokenRequest, error)
	// ComponentStatuses returns the health of the control plane's components.
	ComponentStatuses func(ctx context.Context) ([]*corev1.ComponentStatus, error)
}

// sloppy says that addresses may have forms that are no longer valid.
func (d Deps) sloppy() bool { return d.Pods.Gates.Off(features.StrictIPCIDRValidation) }

// Objects reads and changes stored objects of other resources. Errors are API
// errors (not found, conflict).
type Objects interface {
	Get(ctx context.Context, resource schema.GroupResource, namespace, name string) (engine.Object, error)
	List(ctx context.Context, resource schema.GroupResource, namespace string) ([]engine.Object, error)
	// Update changes an object by change, which may run several times, each time with a fresh copy of the stored
	// object; Update returns the last result of change.
	Update(ctx context.Context, resource schema.GroupResource, w request.Which, dryRun bool, change func(obj engine.Object) error) (engine.Object, error)
	Delete(ctx context.Context, resource schema.GroupResource, w request.Which, options *metav1.DeleteOptions) error
}

// Resources returns every resource of the group.
func Resources(d Deps) []*engine.Resource {
	return engine.Kinds(
		bindings(d),
		componentStatuses(d),
		configMaps(),
		endpoints(d),
		events(d),
		limitRanges(d),
		namespaces(),
		nodes(d),
		persistentVolumeClaims(),
		persistentVolumes(d),
		pods(d),
		podTemplates(d),
		replicationControllers(d),
		resourceQuotas(),
		secrets(),
		serviceAccounts(d),
		services(d),
	)
}

var (
	v1       = corev1.SchemeGroupVersion
	eventsV1 = eventsv1.SchemeGroupVersion
)

// only returns the versions of a kind that is served only in core/v1.
func only(v *engine.Version) []*engine.Version { return []*engine.Version{v} }
