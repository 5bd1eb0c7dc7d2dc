// Package backup has databases as files: snapshots and what looks into them, and the databases of kine that become snapshots. It
// reads records of keys and never a running view.
package backup
