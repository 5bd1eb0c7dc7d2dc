// Package allocation allocates resources that services share: cluster IPs and node ports.
//
// Nothing is allocated twice, however many servers work on one etcd, because etcd itself decides. Allocating a cluster
// IP creates the IPAddress object of that name; releasing it deletes the object. Node ports are bits of one stored
// RangeAllocation, which changes only by compare-and-swap. Both are stored exactly as kube-apiserver stores them, so
// that either server can take over from the other.
//
// An allocation precedes the write that needs it, and a release follows the write that ends it. So a crash in between
// leaves an allocation without a service, never a service without its allocation. Repair finds and releases such
// allocations.
//
// What the stored service of that name has is never released: a write whose outcome is unknown may have been stored.
package allocation
