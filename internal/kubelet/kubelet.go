// Package kubelet validates requests for a pod's log or for a stream to a container, and selects the container.
// Connections to kubelets are not implemented yet: valid requests get a 503, unless they need no kubelet.
package kubelet

import (
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// defaultContainer is the pod annotation that selects the container if the request names none.
const defaultContainer = "kubectl.kubernetes.io/default-container"

// Container returns the container of a pod that a request selects.
func Container(p *corev1.Pod, named string) (string, error) {
	var names, all []string
	for _, c := range p.Spec.Containers {
		names = append(names, c.Name)
	}
	all = append(all, names...)
	for _, c := range p.Spec.InitContainers {
		all = append(all, c.Name)
	}
	for _, c := range p.Spec.EphemeralContainers {
		all = append(all, c.Name)
	}
	if named == "" {
		named = p.Annotations[defaultContainer]
	}
	if named == "" && len(names) == 1 {
		return names[0], nil
	}
	if named == "" {
		return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s, choose one of: %v", p.Name, names))
	}
	for _, n := range all {
		if n == named {
			return n, nil
		}
	}
	return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", named, p.Name))
}

// errNoKubelets returns the error for requests that need a kubelet.
func errNoKubelets() error {
	return apierrors.NewServiceUnavailable("this server does not connect to kubelets yet")
}

// ServeLog serves a request for a container's log. A pod without a node has none.
func ServeLog(w http.ResponseWriter, p *corev1.Pod, container string) error {
	if _, err := Container(p, container); err != nil {
		return err
	}
	if p.Spec.NodeName != "" {
		return errNoKubelets()
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// ServeStream serves a request for a stream to a container.
func ServeStream(req *http.Request, p *corev1.Pod, kind, container string) error {
	if kind != "portforward" {
		if _, err := Container(p, container); err != nil {
			return err
		}
	}
	if p.Spec.NodeName == "" {
		return apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", p.Name))
	}
	if !strings.Contains(strings.ToLower(req.Header.Get("Connection")), "upgrade") {
		return apierrors.NewBadRequest("Upgrade request required")
	}
	return errNoKubelets()
}

// ServeProxy serves a proxy request.
func ServeProxy() error { return errNoKubelets() }
