package server

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

	"github.com/kanzen-io/kanzen/internal/builtin/core"
	"github.com/kanzen-io/kanzen/internal/catalog"
	"github.com/kanzen-io/kanzen/internal/egress"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/kubelet"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/resolver"
)

// This file wires the requests that are passed on to kubelets, pods and
// services.

// kubelets serves those requests.
type kubelets struct {
	streams  *kubelet.Server
	services *resolver.Resolver
	objects  *catalog.Raw
}

func (b *base) kubelets() (*kubelets, error) {
	cfg := b.cfg
	streams, err := kubelet.New(kubelet.Config{
		Node: func(ctx context.Context, name string) (*corev1.Node, error) {
			return stored[*corev1.Node](ctx, b.objects, "nodes", "", name)
		},
		AddressTypes: cfg.KubeletAddressTypes, Port: int(cfg.KubeletPort),
		CAFile: cfg.KubeletCAFile, CertFile: cfg.KubeletCertFile, KeyFile: cfg.KubeletKeyFile,
		ConnectTimeout: cfg.KubeletTimeout, AnswerTimeout: cfg.RequestTimeout, BytesPerSecond: cfg.MaxConnectionBytesPerSecond,
		Dial: b.ground.Egress.Dial(egress.Cluster), WriteError: engine.RefuseRequest,
		Registry: b.metrics.Registry(), Clock: b.ground.Clock, Log: b.log,
	})
	if err != nil {
		return nil, err
	}
	return &kubelets{streams, &resolver.Resolver{Objects: b.objects, Random: mathrand.IntN}, b.objects}, nil
}

// stored returns the newest object of type T.
func stored[T engine.Object](ctx context.Context, objects *catalog.Raw, resource, namespace, name string) (T, error) {
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

// connect serves the subresources that stream to or proxy nodes, pods and
// services.
func (k *kubelets) connect(w http.ResponseWriter, r *http.Request, sub *engine.Subresource, options runtime.Object) error {
	i := request.InfoFrom(r.Context())
	switch o := options.(type) {
	case *corev1.NodeProxyOptions:
		return k.streams.ProxyNode(w, r, i.Name, o.Path)
	case *corev1.ServiceProxyOptions:
		return k.proxyService(w, r, i, o.Path)
	case *corev1.PodProxyOptions:
		return k.proxyPod(w, r, i, o.Path)
	case nil:
		return k.log(w, r, i)
	}
	pod, err := k.pod(r.Context(), i.Namespace, i.Name)
	if err != nil {
		return err
	}
	switch o := options.(type) {
	case *corev1.PodExecOptions:
		return k.streams.Exec(w, r, pod, o)
	case *corev1.PodAttachOptions:
		return k.streams.Attach(w, r, pod, o)
	case *corev1.PodPortForwardOptions:
		return k.streams.PortForward(w, r, pod, o)
	}
	return fmt.Errorf("connect %s: options of type %T", sub.Name, options)
}

func (k *kubelets) pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	return stored[*corev1.Pod](ctx, k.objects, "pods", namespace, name)
}

func (k *kubelets) log(w http.ResponseWriter, r *http.Request, i *request.Info) error {
	o, err := core.LogOptions(r.URL.Query())
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if errs := core.ValidateLogOptions(o); len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "PodLogOptions"}, i.Name, errs)
	}
	pod, err := k.pod(r.Context(), i.Namespace, i.Name)
	if err != nil {
		return err
	}
	return k.streams.Log(w, r, pod, o)
}

func (k *kubelets) proxyPod(w http.ResponseWriter, r *http.Request, i *request.Info, path string) error {
	scheme, name, port, ok := utilnet.SplitSchemeNamePort(i.Name)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid pod request %q", i.Name))
	}
	pod, err := k.pod(r.Context(), i.Namespace, name)
	if err != nil {
		return err
	}
	return k.streams.ProxyPod(w, r, pod, scheme, port, path)
}

func (k *kubelets) proxyService(w http.ResponseWriter, r *http.Request, i *request.Info, path string) error {
	scheme, name, port, ok := utilnet.SplitSchemeNamePort(i.Name)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid service request %q", i.Name))
	}
	endpoint, err := k.services.PodBehind(r.Context(), i.Namespace, i.Name, name, port)
	if err != nil {
		return err
	}
	return k.streams.ProxyService(w, r, scheme, endpoint, path)
}
