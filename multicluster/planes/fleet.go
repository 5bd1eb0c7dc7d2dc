package planes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
)

// planeKind is the kind of planes.
var planeKind = schema.GroupVersionKind{Group: "planes.kanzen.io", Version: "v1", Kind: "Plane"}

const (
	// Namespace of the root has the secrets of planes.
	Namespace = "kanzen-planes"
	// kubeconfigType is the type of the secrets that have kubeconfigs, kubeconfigKey where they are in these, and kubeconfigLabel the
	// label that names the plane.
	kubeconfigType, kubeconfigKey, kubeconfigLabel = "planes.kanzen.io/kubeconfig", "value", "planes.kanzen.io/plane"
	// fleetWorkers is how many planes are looked at at a time: to engage one wakes it.
	fleetWorkers = 8
)

// FleetOptions are those of a Fleet.
type FleetOptions struct {
	// Selector selects Planes by their labels; nil: all.
	Selector labels.Selector
	// ClusterOptions are applied to the clusters of planes, such as one that sets the Scheme.
	ClusterOptions []cluster.Option
	// Config, if it is set, is called for the config of each plane, such as to set limits of requests.
	Config func(*rest.Config)
}

// Fleet is a provider whose clusters are the planes of a server.
type Fleet struct {
	members
	options FleetOptions
	cache   cache.Cache // of the root
	queue   workqueue.TypedRateLimitingInterface[string]
	once    sync.Once
}

var (
	_ multicluster.Provider         = &Fleet{}
	_ multicluster.ProviderRunnable = &Fleet{}
)

// NewFleet returns the provider of a server's planes. The config is of the root, whose user needs the verbs list and watch for Planes, and for
// secrets in the namespace kanzen-planes.
func NewFleet(config *rest.Config, options FleetOptions) (*Fleet, error) {
	p := &Fleet{options: options}
	p.log = log.Log.WithName("planes")
	bare := cache.ByObject{Label: options.Selector, Transform: cache.TransformStripManagedFields()}
	kubeconfigs := cache.ByObject{
		Namespaces: map[string]cache.Config{Namespace: {}},
		Field:      fields.OneTermEqualSelector("type", kubeconfigType), // others have keys
		Transform:  cache.TransformStripManagedFields(),
	}
	// Both kinds are known: to begin before the server does is no failure.
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(planeKind, meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	var err error
	p.cache, err = cache.New(config, cache.Options{Scheme: scheme.Scheme, Mapper: mapper, ByObject: map[client.Object]cache.ByObject{newPlane(): bare, &corev1.Secret{}: kubeconfigs}})
	return p, err
}

func newPlane() *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(planeKind)
	return o
}

// Start is part of multicluster.ProviderRunnable: it engages planes as they become ready, until ctx ends.
func (p *Fleet) Start(ctx context.Context, aware multicluster.Aware) error {
	err := errors.New("the provider has been started before")
	p.once.Do(func() { err = p.run(ctx, aware) })
	return err
}

func (p *Fleet) run(ctx context.Context, aware multicluster.Aware) error {
	p.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFrom, retryTo))
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer func() {
		cancel()
		p.queue.ShutDown()
		all.Wait()
		p.stop()
	}()
	all.Go(func() {
		if err := p.cache.Start(ctx); err != nil {
			p.log.Error(err, "the cache of planes has ended")
		}
	})
	if err := p.notice(ctx, newPlane(), func(o client.Object) string { return o.GetName() }); err != nil {
		return ignoreEnd(ctx, err)
	}
	if err := p.notice(ctx, &corev1.Secret{}, func(o client.Object) string { return o.GetLabels()[kubeconfigLabel] }); err != nil {
		return ignoreEnd(ctx, err)
	}
	if !p.cache.WaitForCacheSync(ctx) {
		return nil
	}
	for range fleetWorkers {
		all.Go(func() {
			for p.work(ctx, aware) {
			}
		})
	}
	<-ctx.Done()
	return nil
}

func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// notice has planes looked at when an object of a kind changes.
func (p *Fleet) notice(ctx context.Context, kind client.Object, planeOf func(client.Object) string) error {
	informer, err := p.cache.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	add := func(obj any) {
		if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if o, ok := obj.(client.Object); ok && planeOf(o) != "" {
			p.queue.Add(planeOf(o))
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, now any) { add(now) }, DeleteFunc: add})
	return err
}

// work looks at one plane; false: there will be no more.
func (p *Fleet) work(ctx context.Context, aware multicluster.Aware) bool {
	name, over := p.queue.Get()
	if over {
		return false
	}
	defer p.queue.Done(name)
	if err := p.look(ctx, aware, name); err != nil && ctx.Err() == nil {
		p.log.Error(err, "could not engage, trying again", "plane", name)
		p.queue.AddRateLimited(name)
	} else {
		p.queue.Forget(name)
	}
	return true
}

// look engages or disengages a plane, if it is not as it is to be. One that is engaged stays so while it is there and selected.
func (p *Fleet) look(ctx context.Context, aware multicluster.Aware, name string) error {
	plane, secret := newPlane(), &corev1.Secret{}
	err := p.cache.Get(ctx, client.ObjectKey{Name: name}, plane)
	if apierrors.IsNotFound(err) || err == nil && plane.GetDeletionTimestamp() != nil {
		p.disengage(multicluster.ClusterName(name))
		return nil
	}
	if err != nil {
		return err
	}
	err = p.cache.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: name + "-kubeconfig"}, secret)
	if apierrors.IsNotFound(err) || err == nil && !isOwned(secret, plane) || !isReady(plane) {
		return nil // it comes, or is renewed, and is looked at then
	}
	if err != nil {
		return err
	}
	kubeconfig := secret.Data[kubeconfigKey]
	sum := sha256.Sum256(kubeconfig)
	identity := string(plane.GetUID()) + "/" + hex.EncodeToString(sum[:])
	if p.has(multicluster.ClusterName(name), identity) {
		return nil
	}
	cl, err := p.clusterOf(kubeconfig)
	if err != nil {
		return fmt.Errorf("secret %s/%s: %w", Namespace, secret.Name, err)
	}
	p.engage(ctx, aware, multicluster.ClusterName(name), identity, cl, cl.GetHTTPClient().CloseIdleConnections)
	return nil
}

// clusterOf makes the cluster of a kubeconfig.
func (p *Fleet) clusterOf(kubeconfig []byte) (cluster.Cluster, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	if p.options.Config != nil {
		p.options.Config(config)
	}
	return cluster.New(config, p.options.ClusterOptions...)
}

// isOwned reports whether a secret is of this plane, and not of one that had its name before.
func isOwned(secret *corev1.Secret, plane *unstructured.Unstructured) bool {
	for _, r := range secret.OwnerReferences {
		if r.UID == plane.GetUID() {
			return true
		}
	}
	return false
}

// isReady reports whether a plane answers requests.
func isReady(plane *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(plane.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Ready" {
			return c["status"] == "True"
		}
	}
	return false
}
