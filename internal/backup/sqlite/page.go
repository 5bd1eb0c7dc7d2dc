package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
)

// DB is an open database. Its pages do not change until Close.
type DB struct {
	header
	file *os.File
	shm  *os.File // held for its locks; nil: nobody else uses the database
	wal  *wal     // nil: all pages are in file
}

// Open opens a database, and takes the locks of a reader. It waits for them no longer than is usual for a checkpoint or a commit.
func Open(ctx context.Context, path string) (_ *DB, err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0) // nothing is written, but some locks need it
	if err != nil {
		return nil, err
	}
	d := &DB{file: file}
	if err := d.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), d.Close())
	}
	return d, nil
}

// Close gives the locks back.
func (d *DB) Close() error {
	err := d.file.Close()
	if d.shm != nil {
		err = errors.Join(err, d.shm.Close())
	}
	if d.wal != nil && d.wal.file != nil {
		err = errors.Join(err, d.wal.file.Close())
	}
	return err
}

func (d *DB) open(ctx context.Context) (err error) {
	if err := lockShared(ctx, d.file); err != nil {
		return err
	}
	if d.header, err = readHeader(d.file); err != nil {
		return err
	}
	if err := checkJournal(d.file); err != nil {
		return err
	}
	if d.header.wal {
		if err := d.openWAL(ctx); err != nil {
			return err
		}
	}
	info, err := d.file.Stat()
	if err != nil {
		return err
	}
	there := info.Size() / d.pageSize
	switch {
	case d.wal != nil && d.wal.pages > 0:
		d.pages, there = d.wal.pages, there+int64(len(d.wal.frames))
	case d.pages == 0:
		d.pages = uint32(min(there, math.MaxUint32))
	}
	if int64(d.pages) > there {
		return fmt.Errorf("it has %d pages, and says that it has %d", there, d.pages)
	}
	return nil
}

// openWAL keeps the log and the database from changing, and reads what the log has. Whoever uses a database in WAL mode holds a shared lock
// of it all the time, so an exclusive one says that nobody does, and keeps everybody out until Close. Otherwise the locks of the index forbid
// checkpoints, which write to the database, and that the log begins anew. Commits go on: they add to the log behind what is read.
func (d *DB) openWAL(ctx context.Context) (err error) {
	var want *extent
	if err := lock(d.file, sharedBytes, exclusive); errors.Is(err, errLocked) {
		if want, err = d.holdWAL(ctx); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	f, err := os.Open(d.file.Name() + "-wal")
	if errors.Is(err, fs.ErrNotExist) && (want == nil || want.frames == 0) {
		return nil
	}
	if err != nil {
		return err
	}
	if d.wal, err = readWAL(f, d.pageSize, want); err != nil {
		return errors.Join(err, f.Close())
	}
	return nil
}

// holdWAL takes locks of the index, and returns how far the log is committed.
func (d *DB) holdWAL(ctx context.Context) (*extent, error) {
	shm, err := os.OpenFile(d.file.Name()+"-shm", os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("another process uses it with exclusive locks, or in another file system; stop that process first")
	}
	if err != nil {
		return nil, err
	}
	d.shm = shm
	if err := lockWithin(ctx, shm, checkpointByte, exclusive, lockPatience); err != nil {
		return nil, fmt.Errorf("a checkpoint: %w", err)
	}
	if err := lockWithin(ctx, shm, lastReadByte, shared, lockPatience); err != nil {
		return nil, err
	}
	for range 1000 {
		if e, ok, err := readExtent(shm); ok || err != nil {
			return &e, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("the index of the write-ahead log, %s, is damaged", shm.Name())
}

// page reads a page into b.
func (d *DB) page(n uint32, b []byte) error {
	if n == 0 || n > d.pages {
		return fmt.Errorf("page %d is not one of its %d pages", n, d.pages)
	}
	if d.wal != nil {
		if at, ok := d.wal.frames[n]; ok {
			_, err := d.wal.file.ReadAt(b[:d.pageSize], at)
			return named(n, err)
		}
	}
	_, err := d.file.ReadAt(b[:d.pageSize], int64(n-1)*d.pageSize)
	return named(n, err)
}

func named(page uint32, err error) error {
	if err != nil {
		err = fmt.Errorf("page %d: %w", page, err)
	}
	return err
}

func bufferedAt(f io.ReaderAt, at int64) io.Reader {
	return bufio.NewReaderSize(io.NewSectionReader(f, at, math.MaxInt64-at), 1<<16)
}
