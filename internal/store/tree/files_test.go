package tree

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// watched looks at files as the tree opens them.
type watched struct {
	vfs.FS
	modes map[string]fs.FileMode
}

func (w watched) look(name string) {
	if info, err := os.Stat(name); err == nil {
		w.modes[filepath.Base(name)] = info.Mode().Perm()
	}
}

func (w watched) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	w.look(name)
	return w.FS.OpenReadWrite(name, category, opts...)
}

func (w watched) Lock(name string) (io.Closer, error) {
	w.look(name)
	return w.FS.Lock(name)
}

// TestPrivate looks at files at the moment at which they are opened: nobody else may read them then either.
func TestPrivate(t *testing.T) {
	dir := t.TempDir()
	w := watched{vfs.Default, map[string]fs.FileMode{}}
	p := Private{w}
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("linked"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(at("linked"), at("replaced")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"created", "replaced"} {
		f, err := p.Create(at(name), vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	f, err := p.OpenReadWrite(at("opened"), vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lock, err := p.Lock(at("LOCK"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	for _, name := range []string{"created", "replaced", "opened", "LOCK"} {
		if mode := w.modes[name]; mode != fileMode {
			t.Errorf("%s has mode %v when it is opened", name, mode)
		}
	}
	if kept, err := os.ReadFile(at("linked")); err != nil || string(kept) != "kept" {
		t.Errorf("what a hard link leads to became %q (%v)", kept, err)
	}
}
