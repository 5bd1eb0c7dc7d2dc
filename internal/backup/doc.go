// Package backup contains databases as files: snapshots and the tools that read them, and databases of kine, which become
// snapshots. It reads key records, never a running view.
package backup
