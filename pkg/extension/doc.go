// Package extension makes extension API servers: programs that serve further kinds of a cluster's API, behind the
// Aggregator Server of kanzen or kube-apiserver.
//
// A kind is a Go type (or a schema), a name, and where its objects are: in storage of this package's, or behind
// functions of the author's (Functions). Everything else is the engine of kanzen: discovery, OpenAPI, tables, all kinds
// of patches, server-side apply, watches, authentication and authorization by the host cluster, health, metrics, TLS.
//
//	type Thing struct {
//		metav1.TypeMeta   `json:",inline"`
//		metav1.ObjectMeta `json:"metadata,omitempty"`
//		Spec              ThingSpec `json:"spec,omitempty"`
//	}
//
//	func main() {
//		s := &extension.Server{Group: "example.com", Version: "v1"}
//		extension.Add(s, extension.Kind[Thing]{})
//		extension.Main(s)
//	}
//
// docs/extension.md says how to register such a server with a cluster, and what it does not do.
package extension
