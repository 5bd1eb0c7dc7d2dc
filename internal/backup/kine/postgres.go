package kine

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/lib/pq"
)

// postgres is a PostgreSQL server, as it was when the transaction began.
type postgres struct {
	db *sql.DB
	tx *sql.Tx
}

// defaultDatabase is the one that kine uses if none is named.
const defaultDatabase = "kubernetes"

// openPostgres connects to a server. at is a URL without its scheme.
func openPostgres(ctx context.Context, at string) (_ Source, err error) {
	u, err := url.Parse(postgresScheme + "://" + at)
	if err != nil {
		return nil, errors.New("it is no URL like postgres://user:password@host/database") // err has the password
	}
	u.Path = "/" + strings.ToLower(cmp.Or(strings.Trim(u.Path, "/"), defaultDatabase)) // as kine does
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", u.Redacted(), err)
		}
	}()
	c, err := pq.NewConnector(u.String())
	if err != nil {
		return nil, err
	}
	p := &postgres{db: sql.OpenDB(c)}
	if p.tx, err = p.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}); err != nil {
		return nil, errors.Join(err, p.db.Close())
	}
	return p, nil
}

// Compacted is part of Source.
func (p *postgres) Compacted(ctx context.Context) (rev int64, err error) {
	err = p.tx.QueryRowContext(ctx, `SELECT COALESCE(MAX(prev_revision), 0) FROM kine WHERE name = $1`, compactKey).Scan(&rev)
	return rev, err
}

// batchRows is how many rows are asked for at a time, so that the server takes them from its index of IDs and sorts nothing.
const batchRows = 1000

// Rows is part of Source.
func (p *postgres) Rows(ctx context.Context, each func(*Row) error) error {
	for after := int64(0); ; {
		last, n, err := p.batch(ctx, after, each)
		if err != nil || n < batchRows {
			return err
		}
		after = last
	}
}

// batch passes the rows after an ID.
func (p *postgres) batch(ctx context.Context, after int64, each func(*Row) error) (last int64, n int, err error) {
	rows, err := p.tx.QueryContext(ctx, `SELECT id, COALESCE(name, ''), COALESCE(created, 0) <> 0, COALESCE(deleted, 0) <> 0,
		COALESCE(create_revision, 0), COALESCE(prev_revision, 0), COALESCE(lease, 0), value FROM kine WHERE id > $1 ORDER BY id LIMIT $2`, after, batchRows)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for ; rows.Next(); n++ {
		var r Row
		if err := rows.Scan(&r.ID, &r.Name, &r.Created, &r.Deleted, &r.CreateRevision, &r.PrevRevision, &r.Lease, (*sql.RawBytes)(&r.Value)); err != nil {
			return 0, 0, err
		}
		if err := each(&r); err != nil {
			return 0, 0, err
		}
		last = r.ID
	}
	return last, n, rows.Err()
}

// Close is part of Source.
func (p *postgres) Close() error { return errors.Join(p.tx.Rollback(), p.db.Close()) }
