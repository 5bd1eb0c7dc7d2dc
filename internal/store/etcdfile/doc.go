// Package etcdfile reads and writes etcd's database as records of keys: one format of backups for all engines, which etcd's own tools read.
//
// In its bucket "key" is every change by its revision: 8 bytes of the revision, '_', 8 bytes that tell the changes of one revision apart, and
// 't' if the key was deleted. The value is an mvccpb.KeyValue. The bucket "meta" says how far the history is compacted, and "lease" when keys
// end that are bound to a lease.
package etcdfile
