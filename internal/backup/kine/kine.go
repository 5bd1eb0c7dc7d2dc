// Package kine reads the databases of kine, with which k3s and others keep Kubernetes objects in SQL. It turns them into files of etcd's
// database, which the engines take.
//
//	kine.go      what a source is, and which there are
//	history.go   rows to changes of keys
//	sqlite.go    a file of SQLite
//	postgres.go  a PostgreSQL server
//
// kine has one table, also called kine. Each row is a change of a key, and its id is the revision of the change:
//
//	id               the revision
//	name             the key
//	created          1: the key did not exist before
//	deleted          1: the change is a deletion
//	create_revision  the revision that created the key; null or 0 in the row that does
//	prev_revision    the revision before, of the same key
//	lease            seconds until the key is to be deleted; 0: never
//	value            the value, and old_value the one before
//
// Some rows are kine's own. The prev_revision of compact_rev_key is the revision up to which kine has removed rows that were replaced or
// deletions. compact_rev_key_apiserver has what API servers store as compact_rev_key: the version of that key, '|', and its value. Rows with
// names like gap-17 stand for revisions at which nothing changed.
package kine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
)

// Row is a row of the table.
type Row struct {
	ID               int64
	Name             string
	Created, Deleted bool
	CreateRevision   int64
	PrevRevision     int64
	Lease            int64
	Value            []byte
}

// Source is an open database. What it reads is of one moment, and does not change until Close.
type Source interface {
	// Compacted returns the revision up to which replaced rows are removed.
	Compacted(ctx context.Context) (int64, error)
	// Rows calls each with all rows in the order of their IDs. A row is valid during the call only.
	Rows(ctx context.Context, each func(*Row) error) error
	Close() error
}

const (
	sqliteScheme   = "sqlite"
	postgresScheme = "postgres"
)

// Open opens a database. The endpoint is a URL as kine and k3s take it, such as sqlite:///var/lib/rancher/k3s/server/db/state.db.
func Open(ctx context.Context, endpoint string) (Source, error) {
	switch scheme, rest, _ := strings.Cut(endpoint, "://"); scheme {
	case sqliteScheme:
		return openSQLite(ctx, rest)
	case postgresScheme, "postgresql":
		return openPostgres(ctx, rest)
	default:
		return nil, fmt.Errorf("%q is no database of kine that can be read: known are %s:///path and %s://user:password@host/database", scheme, sqliteScheme, postgresScheme)
	}
}

// Saver saves a database of kine, which may be in use.
func Saver(endpoint string) snapshot.Saver {
	return func(ctx context.Context, file string, progress func(bytes int64)) (err error) {
		from, err := Open(ctx, endpoint)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, from.Close()) }()
		if err := Save(ctx, from, file, progress); err != nil {
			return err
		}
		return snapshot.AddChecksum(file)
	}
}
