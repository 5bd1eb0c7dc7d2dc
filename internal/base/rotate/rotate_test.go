package rotate

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// names returns what is in a directory.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func content(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var from io.Reader = f
	if strings.HasSuffix(path, gz) {
		if from, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	b, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRotate(t *testing.T) {
	for _, c := range []struct {
		name string
		file *File
		want []string // contents, by the order of names
	}{
		{"all are kept", &File{MaxSize: 4}, []string{"aaa", "bbb", "ccccccc", "d"}},
		{"few are kept", &File{MaxSize: 4, MaxBackups: 2}, []string{"bbb", "ccccccc", "d"}},
		{"compressed", &File{MaxSize: 4, MaxBackups: 2, Compress: true}, []string{"bbb", "ccccccc", "d"}},
		{"large enough", &File{MaxSize: 14}, []string{"aaabbbcccccccd"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			f := c.file
			f.Path = filepath.Join(dir, "below", "audit.log")
			for n, line := range []string{"aaa", "bbb", "ccccccc", "d"} {
				if _, err := f.Write([]byte(line)); err != nil {
					t.Fatal(err)
				}
				if n == 1 { // the next write goes on where this one was
					if err := f.Close(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			var got []string
			files := names(t, filepath.Dir(f.Path))
			for n, name := range files {
				if old := n < len(files)-1; old != strings.HasPrefix(name, "audit-") || strings.HasSuffix(name, gz) != (old && f.Compress) {
					t.Errorf("names: %v", files)
				}
				got = append(got, content(t, filepath.Join(dir, "below", name)))
			}
			if strings.Join(got, " ") != strings.Join(c.want, " ") {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// Only what was moved aside is tidied, and by the time in its name.
func TestTidy(t *testing.T) {
	dir := t.TempDir()
	at := func(ago time.Duration) string { return time.Now().UTC().Add(-ago).Format(stamp) }
	kept, halved := "audit-"+at(time.Hour)+".log.gz", "audit-"+at(2*time.Hour)+".log"
	for name, text := range map[string]string{
		"audit.log": "now", "audit-" + at(50*time.Hour) + ".log": "old", "audit-" + at(60*time.Hour) + ".log.gz": "old",
		kept: "", halved: "half", halved + gz: "ha", "audit-notes.log": "not ours", "other-" + at(99*time.Hour) + ".log": "not ours",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	f := &File{Path: filepath.Join(dir, "audit.log"), MaxSize: 100, MaxAge: 48 * time.Hour, Compress: true}
	if _, err := f.Write([]byte("!")); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); len(got) != 5 {
		t.Errorf("%v", got)
	}
	if got := content(t, filepath.Join(dir, halved+gz)) + content(t, f.Path); got != "halfnow!" {
		t.Errorf("%q", got)
	}
}

// A new file has the mode of the one before it, which somebody may read by it.
func TestModeStays(t *testing.T) {
	f := &File{Path: filepath.Join(t.TempDir(), "audit.log"), MaxSize: 2}
	if err := os.WriteFile(f.Path, []byte("aa"), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("b")); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(f.Path)
	if err != nil || info.Mode().Perm()&^0o660 != 0 || info.Size() != 1 {
		t.Errorf("%v, %v", info, err)
	}
}
