// Package kubernetesservice maintains the service "kubernetes" in the namespace default, through which pods reach the
// API: the Service, and its Endpoints and EndpointSlice with the addresses of the cluster's API servers.
//
// Each server does this for itself, and all of them write the same objects. A Roster lists the servers: Leases by keys
// that servers keep alive in etcd, Count by the endpoints themselves. Kanzen and kube-apiserver use the same methods,
// so both may serve one cluster.
//
// A server is in the endpoints from the time it is ready until it begins to shut down. A server that crashes stays
// there until its lease expires. Objects are written only if something changes, and each write is based on the object
// stored at that moment. The roster is read after the Endpoints, and the Endpoints after the EndpointSlice, so that a
// server with an older roster conflicts with one with a newer roster, and reads it again.
//
// This package does not maintain the range of the Service's address (internal/server) or the address itself
// (internal/controllers/allocation).
package kubernetesservice
