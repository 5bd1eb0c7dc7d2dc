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
	"github.com/kanzen-io/kanzen/internal/podspec"
)

// Deps is what the rules of this group need from the rest of the server.
type Deps struct {
	// Now is the server's clock.
	Now func() time.Time
	// NewUID makes a random UID.
	NewUID func() types.UID
	// EventTTL is how long events are kept. Zero: for ever.
	EventTTL time.Duration
	// Pods is what the cluster allows its pods.
	Pods podspec.Policy
	// Objects reads and changes other objects on behalf of a subresource.
	Objects Objects
	// Addresses and NodePorts hand out what services need.
	Addresses Addresses
	NodePorts NodePorts
	// CreateToken answers a token request for a service account.
	CreateToken func(ctx context.Context, namespace, account string, r *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)
	// ComponentStatuses asks the components of the control plane how they are.
	ComponentStatuses func(ctx context.Context) ([]*corev1.ComponentStatus, error)
}

// Objects reads and changes stored objects of other resources. Errors are API
// errors (not found, conflict).
type Objects interface {
	Get(ctx context.Context, resource schema.GroupResource, namespace, name string) (engine.Object, error)
	List(ctx context.Context, resource schema.GroupResource, namespace string) ([]engine.Object, error)
	// Update changes an object by a func that may run several times, each time
	// with a fresh copy of what is stored; what change returns is the answer.
	Update(ctx context.Context, resource schema.GroupResource, namespace, name string, dryRun bool, change func(obj engine.Object) error) (engine.Object, error)
	Delete(ctx context.Context, resource schema.GroupResource, namespace, name string, options *metav1.DeleteOptions) error
}

// Resources returns every resource of the group.
func Resources(d Deps) []*engine.Resource {
	return []*engine.Resource{
		bindings(d),
		componentStatuses(d),
		configMaps(),
		endpoints(),
		events(d),
		limitRanges(d),
		namespaces(),
		nodes(),
		persistentVolumeClaims(),
		persistentVolumes(d),
		pods(d),
		podTemplates(d),
		replicationControllers(d),
		resourceQuotas(),
		secrets(),
		serviceAccounts(d),
		services(d),
	}
}

var (
	v1       = corev1.SchemeGroupVersion
	eventsV1 = eventsv1.SchemeGroupVersion
)

// only is the list of versions of a kind that is served in core/v1 alone.
func only(v *engine.Version) []*engine.Version { return []*engine.Version{v} }

// Most kinds with a status let the main resource change everything else, and
// the status subresource nothing else.
var (
	resetStatus = engine.ResetFields([]string{"status"})
	resetSpec   = engine.ResetFields([]string{"spec"})
)
