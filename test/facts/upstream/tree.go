package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// tree knows in which written file of the product a word stands first.
type tree struct{ words map[string]string }

var word = regexp.MustCompile(`[A-Za-z][\w-]{2,}`)

// readTree reads what is written by hand: Go code of the product and its documents.
func readTree(root string) (*tree, error) {
	t := &tree{map[string]string{}}
	for _, dir := range []string{"cmd", "internal", "pkg", "docs"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !(strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".md")) {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if strings.Contains(string(data[:min(len(data), 200)]), "DO NOT EDIT") {
				return nil
			}
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			for _, w := range word.FindAllString(string(data), -1) {
				if w = strings.ToLower(w); t.words[w] == "" {
					t.words[w] = rel
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return t, nil
}

// mentions returns a file that has a word, in small or capital letters; "": none has.
func (t *tree) mentions(name string) string {
	return t.words[strings.ToLower(strings.TrimLeft(name, "-"))]
}
