package etcdfile

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// tmpPrefix is what the names of directories begin with in which files are made. What a process has left is removed by the next.
const tmpPrefix = "snapshot-"

// RemoveLeft removes what a process that was killed has left of Stream.
func RemoveLeft(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) { // the files are not the system's
		return nil
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tmpPrefix) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// Stream has write make a file below a directory, and streams it with its SHA-256 at the end. The file is gone once the stream is closed.
func Stream(dir string, write func(path string) error) (io.ReadCloser, error) {
	tmp, err := os.MkdirTemp(dir, tmpPrefix)
	if err != nil {
		return nil, err
	}
	remove := func() { _ = os.RemoveAll(tmp) }
	path := filepath.Join(tmp, "db")
	if err := write(path); err != nil {
		remove()
		return nil, fmt.Errorf("write a snapshot: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		remove()
		return nil, err
	}
	h := sha256.New()
	return &stream{Reader: io.MultiReader(io.TeeReader(f, h), &sum{of: h.Sum}), close: func() error { defer remove(); return f.Close() }}, nil
}

// stream is a file that is gone once it is closed.
type stream struct {
	io.Reader
	close func() error
}

func (s *stream) Close() error { return s.close() }

// sum reads the checksum of what has been read before it.
type sum struct {
	of   func([]byte) []byte
	left *bytes.Reader
}

func (s *sum) Read(p []byte) (int, error) {
	if s.left == nil {
		s.left = bytes.NewReader(s.of(nil))
	}
	return s.left.Read(p)
}
