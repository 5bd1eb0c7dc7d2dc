package evidence

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

const docs = "../../docs"

// TestPages asks whether the pages say what the files say that runs left behind.
func TestPages(t *testing.T) {
	asJSON, asMarkdown, err := Pages(docs)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{"evidence.json": asJSON, "evidence.md": asMarkdown} {
		got, err := os.ReadFile(filepath.Join(docs, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("docs/%s is not what the files in docs/evidence say: run make evidence", name)
		}
	}
}

// TestFilesAreWhole reads the files: each suite says where it was run, and its counts add up.
func TestFilesAreWhole(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(docs, "evidence", "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	for _, path := range paths {
		r, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range r.Suites {
			if s.Date == "" || s.Commit == "" || s.Machine == "" || s.Module == "" || s.Servers[Kanzen].Passed == 0 || s.Servers[Kanzen].Version == "" {
				t.Errorf("%s: %s does not say what was run, when and where", path, s.Name)
			}
			for name, of := range s.Servers {
				if of.Failed != len(of.Failing) {
					t.Errorf("%s: %s: %d tests failed on %s, and %d are named", path, s.Name, of.Failed, name, len(of.Failing))
				}
			}
		}
	}
}
