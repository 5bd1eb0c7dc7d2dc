package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// FileMode is the mode of snapshots: they hold all secrets of a cluster.
const FileMode = 0o600

// CanSave says what keeps a snapshot from being saved to a file, as far as that is known before one is made.
func CanSave(path string) error {
	if path == "" {
		return errors.New("name the file to save to")
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("%s: it is a directory; name a file", path)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil {
		return err
	} else if !info.IsDir() {
		return fmt.Errorf("%s: it is not a directory", filepath.Dir(path))
	}
	return nil
}

// Save writes a snapshot that a server streams to a file. The file appears under its name only when it is complete, on
// disk, and its checksum is right. progress is called with the number of bytes so far; nil: it is not.
func Save(ctx context.Context, from io.Reader, path string, progress func(bytes int64)) error {
	return Create(path, func(f *os.File) error {
		if _, err := io.Copy(f, &counted{ctx: ctx, from: from, told: progress}); err != nil {
			return fmt.Errorf("read the snapshot: %w", err)
		}
		if err := f.Sync(); err != nil {
			return err
		}
		_, err := checksum(f)
		return err
	})
}

// Create makes a file, of FileMode, of what write writes. The file appears under its name only when it is complete and on disk.
func Create(path string, write func(f *os.File) error) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreClosed(tmp.Close()), os.Remove(tmp.Name()))
		}
	}()
	if err := tmp.Chmod(FileMode); err != nil {
		return err
	}
	if err := write(tmp); err != nil {
		return err
	}
	if err := errors.Join(tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// syncDir makes a rename durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// counted is a reader that ends with its context and tells how much was read.
type counted struct {
	ctx  context.Context //nolint:containedctx // io.Reader has none
	from io.Reader
	n    int64
	told func(int64)
}

// Read is part of io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.from.Read(p)
	c.n += int64(n)
	if c.told != nil && n > 0 {
		c.told(c.n)
	}
	return n, err
}
