// Package connect serves the subresources that stream to or proxy nodes, pods and services: it finds out where the other end
// is, and leaves the connection to package kubelet.
package connect

import (
	"context"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/kanzen-io/kanzen/internal/api/builtin/core"
	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/api/resolver"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/wire/kubelet"
)

// Connector serves those subresources.
type Connector struct {
	streams  *kubelet.Server
	services *resolver.Resolver
	objects  *catalog.Raw
	gates    features.Set
}

// New makes a Connector.
func New(streams *kubelet.Server, objects *catalog.Raw, gates features.Set) *Connector {
	return &Connector{streams, &resolver.Resolver{Objects: objects, Random: mathrand.IntN}, objects, gates}
}

// Stored returns the newest object of type T.
func Stored[T engine.Object](ctx context.Context, objects *catalog.Raw, resource, namespace, name string) (T, error) {
	obj, err := objects.Get(ctx, corev1.Resource(resource), namespace, name)
	if err != nil {
		var none T
		return none, err
	}
	t, ok := obj.(T)
	if !ok {
		return t, fmt.Errorf("%s %s is a %T", resource, name, obj)
	}
	return t, nil
}

// Connect serves the subresources that stream to or proxy nodes, pods and
// services.
func (c *Connector) Connect(w http.ResponseWriter, r *http.Request, sub *engine.Subresource, options runtime.Object) error {
	i := request.InfoFrom(r.Context())
	switch o := options.(type) {
	case *corev1.NodeProxyOptions:
		return c.streams.ProxyNode(w, r, i.Name, o.Path)
	case *corev1.ServiceProxyOptions:
		return c.proxyService(w, r, i, o.Path)
	case *corev1.PodProxyOptions:
		return c.proxyPod(w, r, i, o.Path)
	case nil:
		return c.log(w, r, i)
	}
	pod, err := c.pod(r.Context(), i.Namespace, i.Name)
	if err != nil {
		return err
	}
	switch o := options.(type) {
	case *corev1.PodExecOptions:
		return c.streams.Exec(w, r, pod, o)
	case *corev1.PodAttachOptions:
		return c.streams.Attach(w, r, pod, o)
	case *corev1.PodPortForwardOptions:
		return c.streams.PortForward(w, r, pod, o)
	}
	return fmt.Errorf("connect %s: options of type %T", sub.Name, options)
}

func (c *Connector) pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	return Stored[*corev1.Pod](ctx, c.objects, "pods", namespace, name)
}

func (c *Connector) log(w http.ResponseWriter, r *http.Request, i *request.Info) error {
	o, err := core.LogOptions(r.URL.Query())
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	splitStreams := c.gates.Enabled(features.PodLogsQuerySplitStreams)
	if splitStreams && o.Stream == nil {
		o.Stream = new(corev1.LogStreamAll)
	}
	if errs := core.ValidateLogOptions(o, splitStreams); len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "PodLogOptions"}, i.Name, errs)
	}
	pod, err := c.pod(r.Context(), i.Namespace, i.Name)
	if err != nil {
		return err
	}
	return c.streams.Log(w, r, pod, o)
}

func (c *Connector) proxyPod(w http.ResponseWriter, r *http.Request, i *request.Info, path string) error {
	scheme, name, port, ok := utilnet.SplitSchemeNamePort(i.Name)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid pod request %q", i.Name))
	}
	pod, err := c.pod(r.Context(), i.Namespace, name)
	if err != nil {
		return err
	}
	return c.streams.ProxyPod(w, r, pod, scheme, port, path)
}

func (c *Connector) proxyService(w http.ResponseWriter, r *http.Request, i *request.Info, path string) error {
	scheme, name, port, ok := utilnet.SplitSchemeNamePort(i.Name)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid service request %q", i.Name))
	}
	endpoint, err := c.services.PodBehind(r.Context(), i.Namespace, name, port)
	if err != nil {
		return err
	}
	return c.streams.ProxyService(w, r, scheme, endpoint, path)
}
