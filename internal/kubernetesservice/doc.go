// Package kubernetesservice keeps the service "kubernetes" of the namespace
// default, by which pods reach the API: the Service, and as its Endpoints and
// EndpointSlice the addresses of the cluster's API servers.
//
// Each server does this for itself, and all of them write the same objects.
// Which servers there are a Roster says: Leases by the keys that servers keep
// alive in etcd, Count by the endpoints themselves. Kanzen and kube-apiserver
// do it in the same way, so that both may serve one cluster.
//
// A server is among the endpoints from when it is ready until it begins to
// shut down. One that ends without a farewell stays until its lease runs out.
// Objects are written only where something is to change, and each write is
// decided on what is stored at that moment: the roster is read after the
// Endpoints, and the Endpoints after the EndpointSlice, so that a server that
// looked earlier conflicts with one that looked later, and looks again.
//
// Not kept here: the range that the Service's address comes from
// (internal/server), and the address itself (internal/allocation).
package kubernetesservice
