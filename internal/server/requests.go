package server

import (
	"context"
	"crypto/rand"
	"net/http"

	"github.com/kanzen-io/kanzen/internal/authz"
	"github.com/kanzen-io/kanzen/internal/builtin/core"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/kubelet"
	"github.com/kanzen-io/kanzen/internal/request"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// authorizeWith asks whether the context's user may do something else than the
// request that was authorized.
func authorizeWith(a authz.Authorizer) func(ctx context.Context, i *request.Info) error {
	return func(ctx context.Context, i *request.Info) error {
		at := authz.ForRequest(request.UserFrom(ctx), i)
		decision, reason, err := a.Authorize(ctx, at)
		if decision == authz.Allow {
			return nil
		}
		if err != nil {
			return err
		}
		return authz.Forbidden(at, reason)
	}
}

// suffixLetters are those of generated names: no vowels, that no words arise,
// and nothing that is read as something else.
const suffixLetters = "bcdfghjklmnpqrstvwxz2456789"

func nameSuffix() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails
	for n := range b {
		b[n] = suffixLetters[int(b[n])%len(suffixLetters)]
	}
	return string(b[:])
}

func writeError(w http.ResponseWriter, r *http.Request, err error) {
	gv := schema.GroupVersion{}
	if i := request.InfoFrom(r.Context()); i != nil && i.IsResource {
		gv = schema.GroupVersion{Group: i.Group, Version: i.Version}
	}
	engine.WriteError(w, r, gv, err)
}

// connect serves the subresources that lead to nodes, pods and services.
func connect(w http.ResponseWriter, req *http.Request, ep *engine.Endpoint, sub *engine.Subresource) error {
	i := request.InfoFrom(req.Context())
	obj, err := ep.GetObject(req.Context(), i.Namespace, i.Name)
	if err != nil {
		return err
	}
	pod, isPod := obj.(*corev1.Pod)
	q := req.URL.Query()
	switch {
	case sub.Connect == "proxy" && isPod && pod.Status.PodIP == "":
		return apierrors.NewBadRequest("the pod has no address yet")
	case sub.Connect == "proxy" || !isPod:
		return kubelet.ServeProxy()
	case sub.Connect == "log":
		options, err := core.LogOptions(q)
		if err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		if errs := core.ValidateLogOptions(options); len(errs) > 0 {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "PodLogOptions"}, i.Name, errs)
		}
		return kubelet.ServeLog(w, pod, options.Container)
	}
	return kubelet.ServeStream(req, pod, sub.Connect, q.Get("container"))
}
