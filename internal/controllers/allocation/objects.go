package allocation

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Objects is the stored objects of the server. Errors are API errors.
type Objects interface {
	// Get and List return the newest objects.
	Get(ctx context.Context, gr schema.GroupResource, namespace, name string) (engine.Object, error)
	List(ctx context.Context, gr schema.GroupResource, namespace string) ([]engine.Object, error)
	Create(ctx context.Context, gr schema.GroupResource, obj engine.Object) (engine.Object, error)
	Update(ctx context.Context, gr schema.GroupResource, w request.Which, dryRun bool, change func(obj engine.Object) error) (engine.Object, error)
	Delete(ctx context.Context, gr schema.GroupResource, w request.Which, options *metav1.DeleteOptions) error
	// Endpoint returns the endpoint of a resource.
	Endpoint(gr schema.GroupResource) (*engine.Endpoint, error)
	// View returns the view of a resource, which may be behind.
	View(gr schema.GroupResource) (*store.View, error)
}

var (
	services     = schema.GroupResource{Resource: "services"}
	events       = schema.GroupResource{Resource: "events"}
	ipAddresses  = schema.GroupResource{Group: "networking.k8s.io", Resource: "ipaddresses"}
	serviceCIDRs = schema.GroupResource{Group: "networking.k8s.io", Resource: "servicecidrs"}
)

// patience bounds one allocation or release. Callers finish what they began even after their client has left, so their
// context has no deadline.
const patience = 20 * time.Second
