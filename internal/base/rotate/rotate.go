// Package rotate writes log files that are moved aside once they are large. Old ones have names like
// audit-2006-01-02T15-04-05.000.log, with .gz behind it if they are compressed: those that kube-apiserver's files have.
package rotate

import (
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// stamp is the time in the name of an old file, in UTC.
const stamp = "2006-01-02T15-04-05.000"

const gz = ".gz"

// File is a file that is appended to, opened by the first write and by a write after Close. It is safe for concurrent use.
type File struct {
	Path string
	// MaxSize is the number of bytes that the file does not exceed, unless by a single write.
	MaxSize int64
	// MaxAge and MaxBackups limit the old files that are kept; 0: no limit.
	MaxAge     time.Duration
	MaxBackups int
	// Compress compresses old files.
	Compress bool

	mu   sync.Mutex
	out  *os.File // nil: closed; guarded by mu
	size int64    // guarded by mu

	// tidies are calls of tidy, which has tidying; one begins with mu held.
	tidies  sync.WaitGroup
	tidying sync.Mutex
}

// Write appends to the file, or to a new one if it would become too large.
func (f *File) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.out == nil {
		if err := f.open(); err != nil {
			return 0, err
		}
	}
	if f.size > 0 && f.size+int64(len(p)) > f.MaxSize {
		if err := f.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := f.out.Write(p)
	f.size += int64(n)
	return n, err
}

// Close closes the file, and waits until old files are compressed and removed.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.close()
	f.tidies.Wait()
	return err
}

func (f *File) close() error {
	if f.out == nil {
		return nil
	}
	out := f.out
	f.out = nil
	return out.Close()
}

// open opens the file; mu is held. What an earlier process has left is tidied.
func (f *File) open() error {
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(f.Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := out.Stat()
	if err != nil {
		return errors.Join(err, out.Close())
	}
	f.out, f.size = out, info.Size()
	f.tidies.Go(f.tidy)
	return nil
}

// rotate moves the file aside and begins a new one with its mode and owner; mu is held.
func (f *File) rotate() error {
	info, err := f.out.Stat()
	if err != nil {
		return err
	}
	if err := f.close(); err != nil {
		return err
	}
	if err := os.Rename(f.Path, f.aside()); err != nil {
		return err
	}
	if err := f.open(); err != nil {
		return err
	}
	return errors.Join(f.out.Chmod(info.Mode()), chown(f.out, info))
}

// aside returns a name for the file that no old one has.
func (f *File) aside() string {
	prefix, ext := f.affixes()
	for now := time.Now().UTC(); ; now = now.Add(time.Millisecond) {
		name := prefix + now.Format(stamp) + ext
		if !exists(name) && !exists(name+gz) {
			return name
		}
	}
}

// exists reports whether something is there; what cannot be looked at is for the renaming to tell.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// affixes are what is around the time in the paths of old files.
func (f *File) affixes() (prefix, ext string) {
	ext = filepath.Ext(f.Path)
	return strings.TrimSuffix(f.Path, ext) + "-", ext
}

// old is a file that was moved aside.
type old struct {
	path       string // without .gz
	at         time.Time
	compressed bool
}

// tidy removes old files that are too many or too old, and compresses the others. What fails is tried again by the next one.
func (f *File) tidy() {
	f.tidying.Lock()
	defer f.tidying.Unlock()
	for n, o := range f.old() {
		switch {
		case f.MaxBackups > 0 && n >= f.MaxBackups, f.MaxAge > 0 && time.Since(o.at) > f.MaxAge:
			_, _ = os.Remove(o.path), os.Remove(o.path+gz) // there is one of them, or both
		case f.Compress && !o.compressed:
			_ = compress(o.path)
		}
	}
}

// old returns the old files, the newest first. One that is being compressed is two files, and not yet compressed.
func (f *File) old() []old {
	entries, _ := os.ReadDir(filepath.Dir(f.Path)) // sorted by name; what cannot be read is not tidied
	prefix, ext := f.affixes()
	found := map[string]old{}
	for _, e := range entries {
		path := filepath.Join(filepath.Dir(f.Path), e.Name())
		plain := strings.TrimSuffix(path, gz)
		text, ours := strings.CutPrefix(strings.TrimSuffix(plain, ext), prefix)
		at, err := time.Parse(stamp, text)
		if !ours || err != nil {
			continue
		}
		if _, ok := found[plain]; !ok || plain == path {
			found[plain] = old{plain, at, plain != path}
		}
	}
	var out []old
	for _, o := range found {
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b old) int { return b.at.Compare(a.at) })
	return out
}

// compress replaces a file by a compressed one.
func compress(path string) (err error) {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	// It may exist, as far as an attempt came that was cut short.
	out, err := os.OpenFile(path+gz, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, info.Mode())
	if err != nil {
		return err
	}
	w := gzip.NewWriter(out)
	_, err = io.Copy(w, in)
	if err := errors.Join(err, w.Close(), chown(out, info), out.Close()); err != nil {
		return errors.Join(err, os.Remove(path+gz))
	}
	return os.Remove(path)
}
