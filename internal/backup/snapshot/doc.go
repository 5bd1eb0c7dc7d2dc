// Package snapshot makes, reads and restores backups of etcd.
//
// A snapshot file is what `etcdctl snapshot save` writes: etcd's database, as bbolt keeps it, at one revision, followed
// by its SHA-256. etcdctl and etcdutl read the files of this package, and this package reads theirs.
//
//	save.go      a stream from etcd to a file
//	file.go      an open snapshot file: its checksum, its revision, its live keys
//	object.go    keys and values to objects; kube-apiserver's encryption included
//	space.go     what takes the room of a database or a snapshot; look.go: of a running or stopped server; inspect.go: of a snapshot
//	at.go        a snapshot of what a database held at an earlier moment
//	faults.go    objects that are not what their keys say; check.go: whether a database is sound
//	diff.go      two snapshots, or a snapshot and a running server, object by object
//	carry.go     single keys from one database to another
//	data.go      a snapshot to a new data directory of etcd
//	apply.go     objects of a snapshot into a running server, through its API (server.go)
//	schedule.go  snapshots by the clock, to places (dir.go, s3.go), each verified by restoring it
//
// Snapshots hold all secrets of a cluster: files are readable by their owner alone, and no value is ever logged.
package snapshot
