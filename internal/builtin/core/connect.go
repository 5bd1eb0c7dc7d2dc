package core

import (
	"github.com/kanzen-io/kanzen/internal/engine"
)

// proxySubresource passes HTTP requests on to a node, pod or service.
func proxySubresource(optionsKind string) *engine.Subresource {
	return &engine.Subresource{
		Name: "proxy", Verbs: []string{"create", "delete", "get", "patch", "update"},
		Kind:    v1.WithKind(optionsKind),
		Connect: "proxy",
	}
}

// streamSubresource is a stream to a container of a pod.
func streamSubresource(name, optionsKind string) *engine.Subresource {
	return &engine.Subresource{
		Name: name, Verbs: []string{"create", "get"},
		Kind:    v1.WithKind(optionsKind),
		Connect: name,
	}
}
