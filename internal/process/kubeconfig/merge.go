// Package kubeconfig adds a cluster, a user and a context to a person's kubeconfig. Everything else in the file stays as
// it is: other entries, unknown fields, comments, their order.
package kubeconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Entry is what Merge adds.
type Entry struct {
	// Context is the name of the context; Cluster and User are the names of what it is made of.
	Context, Cluster, User string
	Server                 string
	Namespace              string // empty: "default"
	// CA, ClientCert and ClientKey are base64 of PEM.
	CA, ClientCert, ClientKey string
}

// Path returns the file that kubectl writes to: the first of $KUBECONFIG that is there, else its last; without it
// ~/.kube/config.
func Path() (string, error) {
	files := filepath.SplitList(os.Getenv("KUBECONFIG"))
	last := ""
	for _, f := range files {
		if f == "" {
			continue
		}
		if _, err := os.Stat(f); err == nil {
			return f, nil
		}
		last = f
	}
	if last != "" {
		return last, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", errors.New("there is no home directory; name the file with KUBECONFIG=PATH")
	}
	return filepath.Join(home, ".kube", "config"), nil
}

// owner is the extension by which entries are known as this program's.
const owner = "kanzen"

// Merge adds the entry to a file, which is made if needed, and replaced atomically. Entries of the same names are replaced
// if this program made them; otherwise they are an error. It reports whether the context is the current one then.
func Merge(path string, e Entry) (current bool, err error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // the link stays
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return false, err
	}
	unlock, err := lock(path)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	made, current, err := merged(old, e)
	if err != nil {
		return false, fmt.Errorf("%s: %w; it was not changed", path, err)
	}
	return current, replace(path, made)
}

// lock keeps kubectl from writing the file at the same time: it takes the same lock.
func lock(path string) (unlock func() error, err error) {
	name := path + ".lock"
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL, 0)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%s is there: another program writes %s now; remove it if none does", name, path)
	}
	if err != nil {
		return nil, err
	}
	_ = f.Close()
	return func() error { return os.Remove(name) }, nil
}

// replace writes a file readable only by its owner.
func replace(path string, data []byte) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".kubeconfig-*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write %s: %w", path, err), tmp.Close(), os.Remove(tmp.Name()))
		}
	}()
	if _, err := tmp.Write(data); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// merged returns the content of a file with the entry in it.
func merged(old []byte, e Entry) (made []byte, current bool, err error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(old, &doc); err != nil {
		return nil, false, fmt.Errorf("is not YAML: %s", strings.ReplaceAll(strings.TrimPrefix(err.Error(), "yaml: "), "\n", " "))
	}
	if doc.Kind == 0 || len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
		if err := yaml.Unmarshal([]byte("apiVersion: v1\nkind: Config\n"), &doc); err != nil {
			return nil, false, err
		}
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, false, errors.New("is not a kubeconfig")
	}
	if kind := get(root, "kind"); kind != nil && kind.Value != "Config" {
		return nil, false, fmt.Errorf("is not a kubeconfig but a %q", kind.Value)
	}
	cluster := mapping("server", e.Server, "certificate-authority-data", e.CA)
	user := mapping("client-certificate-data", e.ClientCert, "client-key-data", e.ClientKey)
	context := mapping("cluster", e.Cluster, "user", e.User)
	if e.Namespace != "" {
		add(context, "namespace", text(e.Namespace))
	}
	for _, part := range []struct {
		list, kind, name string
		value            *yaml.Node
	}{{"clusters", "cluster", e.Cluster, cluster}, {"users", "user", e.User, user}, {"contexts", "context", e.Context, context}} {
		mark := mapping("name", owner)
		add(mark, "extension", mapping("provider", owner))
		add(part.value, "extensions", &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{mark}})
		if err := put(root, part.list, part.kind, part.name, part.value); err != nil {
			return nil, false, err
		}
	}
	switch now := get(root, "current-context"); {
	case now == nil:
		add(root, "current-context", text(e.Context))
		current = true
	case now.Value == "":
		now.SetString(e.Context)
		current = true
	default:
		current = now.Value == e.Context
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(&doc), enc.Close()); err != nil {
		return nil, false, err
	}
	return out.Bytes(), current, nil
}

// put sets the named entry of a list: {name: NAME, KIND: value}.
func put(root *yaml.Node, list, kind, name string, value *yaml.Node) error {
	entries := get(root, list)
	if entries == nil {
		entries = &yaml.Node{Kind: yaml.SequenceNode}
		add(root, list, entries)
	}
	if entries.Tag == "!!null" { // "clusters: null" is how some programs write an empty list
		*entries = yaml.Node{Kind: yaml.SequenceNode}
	}
	if entries.Kind != yaml.SequenceNode {
		return fmt.Errorf("%s is not a list", list)
	}
	entries.Style = 0 // "[]" cannot be read with certificates in it
	made := mapping("name", name)
	add(made, kind, value)
	for i, entry := range entries.Content {
		if n := get(entry, "name"); n == nil || n.Value != name {
			continue
		}
		if !owned(get(entry, kind)) {
			return fmt.Errorf("has a %s %q that kanzen did not make; choose another name with --context", kind, name)
		}
		entries.Content[i] = made
		return nil
	}
	entries.Content = append(entries.Content, made)
	return nil
}

// owned reports whether this program made the value of an entry.
func owned(value *yaml.Node) bool {
	extensions := get(value, "extensions")
	if extensions == nil {
		return false
	}
	for _, x := range extensions.Content {
		if n := get(x, "name"); n != nil && n.Value == owner {
			return true
		}
	}
	return false
}

// get returns the value of a key of a mapping; nil if there is none.
func get(m *yaml.Node, key string) *yaml.Node {
	if m == nil || m.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}
	return nil
}

func add(m *yaml.Node, key string, value *yaml.Node) { m.Content = append(m.Content, text(key), value) }

func text(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}

func mapping(pairs ...string) *yaml.Node {
	m := &yaml.Node{Kind: yaml.MappingNode}
	for i := 0; i+1 < len(pairs); i += 2 {
		add(m, pairs[i], text(pairs[i+1]))
	}
	return m
}
