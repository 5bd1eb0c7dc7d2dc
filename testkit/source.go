package testkit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// object is an object of the API.
type object map[string]any

// at returns what is at a path of names, nil if it is no object.
func (o object) at(names ...string) object {
	for _, n := range names {
		inner, ok := o[n].(map[string]any)
		if !ok {
			return nil
		}
		o = inner
	}
	return o
}

func (o object) text(names ...string) string {
	s, _ := o.at(names[:len(names)-1]...)[names[len(names)-1]].(string)
	return s
}

func (o object) kind() string         { return o.text("kind") }
func (o object) groupVersion() string { return o.text("apiVersion") }
func (o object) name() string         { return o.text("metadata", "name") }
func (o object) namespace() string    { return o.text("metadata", "namespace") }

// Source is where objects come from: Path, FS, YAML or Objects.
type Source struct {
	read func() ([]object, error)
}

// Path is files, or directories with all YAML and JSON files in them (not below them). Documents without apiVersion and
// kind, such as a kustomization's values, are an error.
func Path(paths ...string) Source {
	return Source{func() ([]object, error) {
		var out []object
		for _, p := range paths {
			dir, pattern := filepath.Split(p)
			if info, err := os.Stat(p); err != nil {
				return nil, err
			} else if info.IsDir() {
				dir, pattern = p, "."
			}
			if dir == "" {
				dir = "."
			}
			more, err := FS(os.DirFS(dir), filepath.ToSlash(pattern)).read()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p, err)
			}
			out = append(out, more...)
		}
		return out, nil
	}}
}

// FS is files, or directories with all YAML and JSON files in them, of a file system such as an embed.FS.
func FS(fsys fs.FS, paths ...string) Source {
	return Source{func() ([]object, error) {
		var out []object
		for _, p := range paths {
			files, err := filesOf(fsys, p)
			if err != nil {
				return nil, err
			}
			for _, name := range files {
				text, err := fs.ReadFile(fsys, name)
				if err != nil {
					return nil, err
				}
				more, err := decode(text)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
				out = append(out, more...)
			}
		}
		return out, nil
	}}
}

// filesOf returns a file, or the YAML and JSON files of a directory.
func filesOf(fsys fs.FS, p string) ([]string, error) {
	info, err := fs.Stat(fsys, p)
	if err != nil || !info.IsDir() {
		return []string{p}, err
	}
	entries, err := fs.ReadDir(fsys, p)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		switch ext := path.Ext(e.Name()); {
		case e.IsDir():
		case ext == ".yaml", ext == ".yml", ext == ".json":
			out = append(out, path.Join(p, e.Name()))
		}
	}
	return out, nil
}

// YAML is documents of YAML or JSON.
func YAML(documents ...string) Source {
	return Source{func() ([]object, error) {
		var out []object
		for _, d := range documents {
			more, err := decode([]byte(d))
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		}
		return out, nil
	}}
}

// Objects is Go values of the API's types, with their apiVersion and kind (TypeMeta).
func Objects(objects ...any) Source {
	return Source{func() ([]object, error) {
		var out []object
		for _, o := range objects {
			text, err := json.Marshal(o)
			if err != nil {
				return nil, err
			}
			more, err := decode(text)
			if err != nil {
				return nil, fmt.Errorf("a %T: %w", o, err)
			}
			for _, each := range more {
				delete(each, "status")
			}
			out = append(out, more...)
		}
		return out, nil
	}}
}

// between is what begins a document. The rest of its line is the document's.
var between = regexp.MustCompile(`(?m)^---(?:[ \t\r]|$)`)

// decode reads documents; empty ones are left out, lists are taken apart.
func decode(text []byte) ([]object, error) {
	var out []object
	for _, doc := range between.Split(string(text), -1) {
		var o object
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			return nil, err
		}
		if len(o) == 0 {
			continue
		}
		if o.kind() == "" || o.groupVersion() == "" {
			return nil, errors.New("a document without apiVersion and kind")
		}
		items, isList := o["items"].([]any)
		if !isList || !strings.HasSuffix(o.kind(), "List") {
			out = append(out, o)
			continue
		}
		for _, each := range items {
			item, _ := each.(map[string]any)
			out = append(out, item)
		}
	}
	return out, nil
}
