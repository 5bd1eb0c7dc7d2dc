package kubelet

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// containerOf returns the container of a pod that a request selects.
func containerOf(p *corev1.Pod, named string) (string, error) {
	if named == "" && len(p.Spec.Containers) == 1 {
		return p.Spec.Containers[0].Name, nil
	}
	var names []string
	for _, c := range p.Spec.InitContainers {
		names = append(names, c.Name)
	}
	for _, c := range p.Spec.Containers {
		names = append(names, c.Name)
	}
	for _, c := range p.Spec.EphemeralContainers {
		names = append(names, c.Name)
	}
	switch {
	case named == "" && len(p.Spec.Containers) == 0:
		return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s", p.Name))
	case named == "":
		return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s, choose one of: %s", p.Name, names))
	case !slices.Contains(names, named):
		return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", named, p.Name))
	}
	return named, nil
}

// location is where the kubelet of a node is.
type location struct {
	host, port string
	// sockets says that it speaks the websocket protocols for streams itself.
	sockets bool
}

// featureSockets is declared by nodes whose kubelet speaks the websocket protocols for streams.
const featureSockets = "ExtendWebSocketsToKubelet"

// locate finds the kubelet of a node.
func (s *Server) locate(ctx context.Context, node string) (*location, error) {
	n, err := s.cfg.Node(ctx, node)
	if err != nil {
		return nil, err
	}
	host, err := s.addressOf(n)
	if err != nil {
		return nil, err
	}
	port := int(n.Status.DaemonEndpoints.KubeletEndpoint.Port)
	if port <= 0 {
		port = s.cfg.Port
	}
	return &location{host: host, port: strconv.Itoa(port), sockets: slices.Contains(n.Status.DeclaredFeatures, featureSockets)}, nil
}

// addressOf returns the preferred address of a node.
func (s *Server) addressOf(n *corev1.Node) (string, error) {
	for _, t := range s.cfg.AddressTypes {
		for _, a := range n.Status.Addresses {
			if string(a.Type) == t {
				return a.Address, nil
			}
		}
	}
	return "", fmt.Errorf("no preferred addresses found; known addresses: %v", n.Status.Addresses)
}

// url returns the URL of a kubelet's endpoint. Its segments are names of stored objects.
func (l *location) url(query url.Values, segments ...string) *url.URL {
	path := ""
	for _, s := range segments {
		path += "/" + s
	}
	return &url.URL{Scheme: "https", Host: net.JoinHostPort(l.host, l.port), Path: path, RawQuery: query.Encode()}
}

// kubeletOf finds the kubelet of a pod, which must have a node.
func (s *Server) kubeletOf(ctx context.Context, p *corev1.Pod) (*location, error) {
	if p.Spec.NodeName == "" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", p.Name))
	}
	return s.locate(ctx, p.Spec.NodeName)
}
