package keyfile

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
)

// TestKeys saves the keys of a data directory and restores them to another one.
func TestKeys(t *testing.T) {
	t.Parallel()
	dir, want := t.TempDir(), map[string]string{"pki/ca.key": "secret-ca", "pki/planes/sa.key": "secret-sa", EncryptionFile: "kind: EncryptionConfiguration", "pki/empty": ""}
	for path, content := range want {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, path), content)
	}
	write(t, filepath.Join(dir, "database"), "kept elsewhere")
	if err := os.Symlink(filepath.Join(dir, "database"), filepath.Join(dir, "pki", "linked.key")); err != nil {
		t.Fatal(err)
	}
	want["pki/linked.key"] = "kept elsewhere"
	k, err := Read(dir, filepath.Join(dir, EncryptionFile))
	if err != nil {
		t.Fatal(err)
	}
	file, to := filepath.Join(t.TempDir(), "b.keys"), filepath.Join(t.TempDir(), "new")
	if err := k.Seal(file, "a passphrase"); err != nil {
		t.Fatal(err)
	}
	if sealed, err := os.ReadFile(file); err != nil || strings.Contains(string(sealed), "secret") {
		t.Errorf("%v, or secrets are legible", err)
	}
	if _, err := Open(file, "another"); !errors.Is(err, ErrPassphrase) {
		t.Errorf("another passphrase: %v", err)
	}
	again, err := Open(file, "a passphrase")
	if err != nil || again.Len() != len(want) || !again.Encrypted() {
		t.Fatal(again, err)
	}
	if err := errors.Join(again.CanWrite(to), again.Write(to)); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	err = fs.WalkDir(os.DirFS(to), ".", func(path string, d fs.DirEntry, err error) error {
		info, _ := d.Info()
		if d.IsDir() {
			if info.Mode().Perm() != 0o700 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
			return err
		}
		content, err := os.ReadFile(filepath.Join(to, path))
		if got[path] = string(content); info.Mode() != snapshot.FileMode {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v %v", err, got)
	}
	if again.CanWrite(to) == nil || again.Write(to) == nil {
		t.Error("keys that are there were overwritten")
	}
}

// TestSealer seals the keys of a server again and again: they and the passphrase change, and are away for a while.
func TestSealer(t *testing.T) {
	t.Parallel()
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "a.keys")
	phrase := filepath.Join(dir, "passphrase")
	if _, err := NewSealer(dir, "", phrase); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a passphrase: %v", err)
	}
	write(t, phrase, "\n")
	if _, err := NewSealer(dir, "", phrase); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("with an empty passphrase: %v", err)
	}
	write(t, phrase, "one\n")
	if _, err := NewSealer(dir, "", phrase); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without keys: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "pki"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := NewSealer(dir, "", phrase); err == nil || !strings.Contains(err.Error(), "has no keys") {
		t.Errorf("without any key: %v", err)
	}
	write(t, filepath.Join(dir, "pki", "ca.key"), "first")
	if _, err := NewSealer(dir, "", phrase); err != nil {
		t.Error(err)
	}
	s := &sealer{dataDir: dir, passphraseFile: phrase, work: 5} // takes less
	var last []byte
	seal := func(passphrase, key string, again bool) {
		t.Helper()
		if err := s.seal(out); err != nil {
			t.Fatal(err)
		}
		k, err := Open(out, passphrase)
		if err != nil || string(k.Named([]string{"ca.key"})["ca.key"]) != key {
			t.Errorf("%v %v", k, err)
		}
		now, err := os.ReadFile(out)
		if err != nil || bytes.Equal(now, last) != again {
			t.Errorf("sealed anew: %v, want %v; %v", !bytes.Equal(now, last), !again, err)
		}
		last = now
	}
	seal("one", "first", false)
	seal("one", "first", true)
	write(t, filepath.Join(dir, "pki", "ca.key"), "second")
	seal("one", "second", false)
	write(t, phrase, "two")
	seal("two", "second", false)
	if err := os.Remove(phrase); err != nil {
		t.Fatal(err)
	}
	if err := s.seal(out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the passphrase: %v", err)
	}
	write(t, phrase, "two")
	seal("two", "second", true)
}

// TestKeysOfOthers opens files that Seal has not made. None may write outside of the data directory, or end in a panic.
func TestKeysOfOthers(t *testing.T) {
	t.Parallel()
	type entry struct {
		name, content string
		kind          byte
	}
	big := strings.Repeat("x", maxKeys/2+1)
	for what, c := range map[string]struct {
		entries []entry
		want    string
	}{
		"outside":           {[]entry{{name: "pki/../../outside"}}, "no key of a server"},
		"absolute":          {[]entry{{name: "/pki/a"}}, "no key of a server"},
		"beside":            {[]entry{{name: "etcd/member/snap/db"}}, "no key of a server"},
		"a directory":       {[]entry{{name: "pki/a/", kind: tar.TypeDir}}, "no key of a server"},
		"a link":            {[]entry{{name: "pki/a", kind: tar.TypeSymlink}}, "no key of a server"},
		"of another system": {[]entry{{name: `pki/..\..\a`}}, "no key of a server"},
		"twice":             {[]entry{{name: "pki/a"}, {name: "pki/a"}}, "pki/a is there twice"},
		"too much":          {[]entry{{name: "pki/a", content: big}, {name: "pki/b", content: big}}, "more than 16 MiB"},
	} {
		var plain bytes.Buffer
		archive := tar.NewWriter(&plain)
		for _, e := range c.entries {
			if err := archive.WriteHeader(&tar.Header{Name: e.name, Typeflag: e.kind, Mode: 0o600, Size: int64(len(e.content))}); err != nil {
				t.Fatal(err)
			}
			if _, err := archive.Write([]byte(e.content)); err != nil {
				t.Fatal(err)
			}
		}
		if err := archive.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := open(sealed(t, plain.Bytes()), "p"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	whole := sealed(t, []byte("no archive at all, but long enough to be one"+strings.Repeat(" ", 1024)))
	for what, from := range map[string]*bytes.Buffer{
		"no archive": bytes.NewBuffer(whole.Bytes()), "cut off": bytes.NewBuffer(whole.Bytes()[:whole.Len()-5]), "no age": bytes.NewBufferString("text"), "nothing": {},
	} {
		if k, err := open(from, "p"); err == nil || errors.Is(err, ErrPassphrase) {
			t.Errorf("%s: %v %v", what, k, err)
		}
	}
}

// sealed encrypts what may be no archive. It takes less work than Seal.
func sealed(t *testing.T, plain []byte) *bytes.Buffer {
	t.Helper()
	r, err := age.NewScryptRecipient("p")
	if err != nil {
		t.Fatal(err)
	}
	r.SetWorkFactor(5)
	var out bytes.Buffer
	w, err := age.Encrypt(&out, r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &out
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
