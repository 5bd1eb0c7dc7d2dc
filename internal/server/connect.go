package server

import (
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/builtin/core"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/kubelet"
	"github.com/kanzen-io/kanzen/internal/request"
)

// connect serves the subresources that lead to nodes, pods and services.
func (s *Server) connect(w http.ResponseWriter, req *http.Request, ep *engine.Endpoint, sub *engine.Subresource) error {
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
