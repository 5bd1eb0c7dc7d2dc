// Package allocation hands out what services share: cluster IPs and node ports.
//
// It promises that nothing is given out twice, however many servers work on
// one etcd, because the arbiter is etcd itself. A cluster IP is taken by
// creating the IPAddress object that bears its name, and given back by
// deleting it. Node ports are bits of one stored RangeAllocation, which only
// changes by compare-and-swap. Both are kept exactly as kube-apiserver keeps
// them, so that either server can go on where the other stopped.
//
// An allocation comes before the write that needs it and a release after the
// write that ends it, so a crash in between leaves something allocated that
// nobody has, never the other way round. Repair finds it and gives it back.
//
// Nothing is released that the stored service of that name has: a write whose
// outcome is unknown may have been stored after all.
package allocation
