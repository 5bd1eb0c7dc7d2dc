package kine

import (
	"context"
	"fmt"
	"strings"

	"github.com/kanzen-io/kanzen/internal/backup/sqlite"
)

// file is a database of SQLite.
type file struct {
	db    *sqlite.DB
	table *sqlite.Table
	at    columns
}

// columns are the positions of the columns that are read.
type columns struct{ name, created, deleted, createRevision, prevRevision, lease, value int }

// openSQLite opens a file. What follows a question mark are settings for SQLite.
func openSQLite(ctx context.Context, path string) (Source, error) {
	path, _, _ = strings.Cut(path, "?")
	db, err := sqlite.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	f := &file{db: db}
	if err := f.open(ctx); err != nil {
		_ = db.Close()
		return nil, err
	}
	return f, nil
}

func (f *file) open(ctx context.Context) (err error) {
	if f.table, err = f.db.Table(ctx, "kine"); err != nil {
		return err
	}
	for name, at := range map[string]*int{
		"name": &f.at.name, "created": &f.at.created, "deleted": &f.at.deleted, "create_revision": &f.at.createRevision,
		"prev_revision": &f.at.prevRevision, "lease": &f.at.lease, "value": &f.at.value,
	} {
		if *at = f.table.Column(name); *at < 0 {
			return fmt.Errorf("table kine has no column %s, but %q", name, f.table.Columns)
		}
	}
	return nil
}

// Compacted is part of Source.
func (f *file) Compacted(ctx context.Context) (rev int64, err error) {
	err = f.table.Scan(ctx, func(r *sqlite.Row) error {
		name, err := r.Column(f.at.name)
		if err != nil || string(name.Bytes) != compactKey {
			return err
		}
		prev, err := r.Column(f.at.prevRevision)
		rev = max(rev, prev.Int)
		return err
	})
	return rev, err
}

// Rows is part of Source.
func (f *file) Rows(ctx context.Context, each func(*Row) error) error {
	return f.table.Scan(ctx, func(r *sqlite.Row) error {
		var v [7]sqlite.Value
		for n, at := range []int{f.at.name, f.at.created, f.at.deleted, f.at.createRevision, f.at.prevRevision, f.at.lease, f.at.value} {
			var err error
			if v[n], err = r.Column(at); err != nil {
				return err
			}
		}
		return each(&Row{
			ID: r.ID, Name: string(v[0].Bytes), Created: v[1].Int != 0, Deleted: v[2].Int != 0,
			CreateRevision: v[3].Int, PrevRevision: v[4].Int, Lease: v[5].Int, Value: v[6].Bytes,
		})
	})
}

// Close is part of Source.
func (f *file) Close() error { return f.db.Close() }
