// Package kubelet decides what a request for a pod's log or for a stream to a
// container is about, before anything is asked of the kubelet that runs it.
// Connections to kubelets are not made yet: what is valid is answered with
// 503, except where nothing needs a kubelet.
package kubelet

import (
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// defaultContainer is the annotation by which a pod says which of its
// containers is meant where none is named.
const defaultContainer = "kubectl.kubernetes.io/default-container"

// Container returns the container of a pod that a request means.
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

// errNoKubelets says what is missing.
func errNoKubelets() error {
	return apierrors.NewServiceUnavailable("this server does not connect to kubelets yet")
}

// ServeLog answers a request for a container's log. A pod that runs nowhere
// has none.
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

// ServeStream answers a request for a stream to a container.
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

// ServeProxy answers a request that is to be passed on.
func ServeProxy() error { return errNoKubelets() }
