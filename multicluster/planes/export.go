package planes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
)

// ExportOptions are those of an Export.
type ExportOptions struct {
	// ClusterOptions are applied to the clusters of planes, such as one that sets the Scheme. Options of the cache are those of the
	// cache that all planes share.
	ClusterOptions []cluster.Option
}

// Export is a provider whose clusters are the planes that have bound an export.
type Export struct {
	members
	name   string
	config *rest.Config // of the provider's plane
	view   *rest.Config // of all planes
	url    *url.URL     // of view
	http   *http.Client
	mapper meta.RESTMapper

	options []cluster.Option
	made    cluster.Options // what the options say
	cache   cache.Cache
	begun   chan struct{} // closed when cache is started
	once    sync.Once
}

var (
	_ multicluster.Provider         = &Export{}
	_ multicluster.ProviderRunnable = &Export{}
)

// NewExport returns the provider of an export. The config is of the plane that has the export, whose user needs rights to the paths
// /exports/NAME and /exports/NAME/* there.
func NewExport(config *rest.Config, name string, options ExportOptions) (*Export, error) {
	if name == "" || strings.ContainsAny(name, "/%?#") {
		return nil, fmt.Errorf("%q is no name of an export", name)
	}
	p := &Export{name: name, config: config, options: options.ClusterOptions, begun: make(chan struct{})}
	p.log = log.Log.WithName("planes").WithValues("export", name)
	p.view = p.below("")
	var err error
	if p.url, _, err = rest.DefaultServerUrlFor(p.view); err != nil {
		return nil, err
	}
	if p.http, err = rest.HTTPClientFor(p.view); err != nil {
		return nil, err
	}
	if p.mapper, err = apiutil.NewDynamicRESTMapper(p.view, p.http); err != nil {
		return nil, err
	}
	for _, o := range options.ClusterOptions {
		o(&p.made)
	}
	if p.made.Scheme == nil {
		p.made.Scheme = scheme.Scheme
	}
	if err := p.unsupported(); err != nil {
		return nil, err
	}
	shared := p.made.Cache
	shared.Scheme, shared.Mapper, shared.HTTPClient, shared.NewInformer = p.made.Scheme, p.mapper, p.http, newShared
	p.cache, err = cache.New(p.view, shared)
	return p, err
}

// unsupported refuses options that would have no effect, or break what is shared.
func (p *Export) unsupported() error {
	o, c := &p.made, &p.made.Cache
	narrowed := len(c.DefaultNamespaces) > 0
	copies := c.DefaultUnsafeDisableDeepCopy != nil
	for _, by := range c.ByObject {
		narrowed = narrowed || len(by.Namespaces) > 0
		copies = copies || by.UnsafeDisableDeepCopy != nil
	}
	for option, is := range map[string]bool{
		"NewCache": o.NewCache != nil, "HTTPClient": o.HTTPClient != nil, "MapperProvider": o.MapperProvider != nil,
		"Cache.NewInformer": c.NewInformer != nil, "Cache.DefaultWatchErrorHandler": c.DefaultWatchErrorHandler != nil,
		"Cache.ReaderFailOnMissingInformer": c.ReaderFailOnMissingInformer, "namespaces in Cache": narrowed,
		"UnsafeDisableDeepCopy in Cache": copies, "Cache.Mapper": c.Mapper != nil, "Cache.Scheme": c.Scheme != nil, "Cache.HTTPClient": c.HTTPClient != nil,
	} {
		if is {
			return fmt.Errorf("ClusterOptions: %s does not work with the cache that planes share", option)
		}
	}
	return nil
}

// below returns the config of what is below the export's path.
func (p *Export) below(path string) *rest.Config {
	c := rest.CopyConfig(p.config)
	c.Host = strings.TrimSuffix(c.Host, "/") + "/exports/" + p.name + path
	return c
}

// IndexField is part of multicluster.Provider. A field that is indexed already stays as it is.
func (p *Export) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	return p.cache.IndexField(ctx, obj, field, extract)
}

// Start is part of multicluster.ProviderRunnable: it engages planes as they bind the export, until ctx ends.
func (p *Export) Start(ctx context.Context, aware multicluster.Aware) error {
	err := errors.New("the provider has been started before")
	p.once.Do(func() { err = p.run(ctx, aware) })
	return err
}

func (p *Export) run(ctx context.Context, aware multicluster.Aware) error {
	var cached sync.WaitGroup
	cached.Go(func() {
		if err := p.cache.Start(ctx); err != nil {
			p.log.Error(err, "the cache of all planes has ended")
		}
	})
	close(p.begun)
	defer p.http.CloseIdleConnections()
	defer cached.Wait()
	defer p.stop()
	p.follow(ctx, func(one *bound) { p.engaged(ctx, aware, one) })
	return nil
}

// engaged engages a plane, unless it is.
func (p *Export) engaged(ctx context.Context, aware multicluster.Aware, one *bound) {
	name := multicluster.ClusterName(one.Name)
	if p.has(name, one.UID) {
		return
	}
	cl, err := p.clusterOf(one.Name)
	if err != nil {
		p.log.Error(err, "could not make a cluster", "plane", one.Name) // the options are the same for all, and wrong
		return
	}
	p.engage(ctx, aware, name, one.UID, cl, func() {})
}

// clusterOf makes the cluster of a plane.
func (p *Export) clusterOf(plane string) (cluster.Cluster, error) {
	return cluster.New(p.below("/planes/"+plane), append(p.options[:len(p.options):len(p.options)], func(o *cluster.Options) {
		o.HTTPClient = p.http
		o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return p.mapper, nil }
		o.NewCache = func(*rest.Config, cache.Options) (cache.Cache, error) {
			return &sliced{of: p.cache, scheme: p.made.Scheme, plane: plane, begun: p.begun}, nil
		}
	})...)
}
