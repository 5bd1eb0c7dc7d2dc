// Package snapshot makes, reads and restores backups of etcd.
//
// A snapshot file is what `etcdctl snapshot save` writes: etcd's database, as bbolt keeps it, at one revision, followed
// by its SHA-256. etcdctl and etcdutl read the files of this package, and this package reads theirs.
//
//	save.go      a stream from etcd to a file
//	file.go      an open snapshot file: its checksum, its revision, its live keys
//	object.go    keys and values to objects; kube-apiserver's encryption included
//	inspect.go   what is in a snapshot
//	diff.go      two snapshots, or a snapshot and a running server, object by object
//	data.go      a snapshot to a new data directory of etcd
//	apply.go     objects of a snapshot into a running server, through its API (server.go)
//	schedule.go  snapshots by the clock, to places (dir.go, s3.go), each verified by restoring it
//
// Snapshots hold all secrets of a cluster: files are readable by their owner alone, and no value is ever logged.
package snapshot
