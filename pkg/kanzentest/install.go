package kanzentest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	sigsyaml "sigs.k8s.io/yaml"
)

// Source is where objects come from: Path, FS, YAML or Objects.
type Source struct {
	read func() ([]*unstructured.Unstructured, error)
}

// Read returns the objects.
func (s Source) Read() ([]*unstructured.Unstructured, error) {
	if s.read == nil {
		return nil, nil
	}
	return s.read()
}

// Path is files, or directories with all YAML and JSON files in them (not below them). Documents without apiVersion and
// kind, such as a kustomization's values, are an error.
func Path(paths ...string) Source {
	return Source{func() ([]*unstructured.Unstructured, error) {
		var out []*unstructured.Unstructured
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
			more, err := FS(os.DirFS(dir), filepath.ToSlash(pattern)).Read()
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
	return Source{func() ([]*unstructured.Unstructured, error) {
		var out []*unstructured.Unstructured
		for _, p := range paths {
			files, err := filesOf(fsys, p)
			if err != nil {
				return nil, err
			}
			for _, name := range files {
				data, err := fs.ReadFile(fsys, name)
				if err != nil {
					return nil, err
				}
				more, err := decode(data)
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
		if ext := path.Ext(e.Name()); !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, ext) {
			out = append(out, path.Join(p, e.Name()))
		}
	}
	return out, nil
}

// YAML is documents of YAML or JSON.
func YAML(documents ...string) Source {
	return Source{func() ([]*unstructured.Unstructured, error) {
		var out []*unstructured.Unstructured
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

// Objects is Go values with their apiVersion and kind (TypeMeta).
func Objects(objects ...runtime.Object) Source {
	return Source{func() ([]*unstructured.Unstructured, error) {
		var out []*unstructured.Unstructured
		for _, o := range objects {
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
			if err != nil {
				return nil, err
			}
			unstructured.RemoveNestedField(content, "status")
			u := &unstructured.Unstructured{Object: content}
			if u.GetKind() == "" || u.GetAPIVersion() == "" {
				return nil, fmt.Errorf("a %T without apiVersion and kind: set its TypeMeta", o)
			}
			out = append(out, u)
		}
		return out, nil
	}}
}

// decode reads documents; empty ones are left out, lists are taken apart.
func decode(data []byte) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		doc, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		var content map[string]any
		if err := sigsyaml.Unmarshal(doc, &content); err != nil {
			return nil, err
		}
		if len(content) == 0 {
			continue
		}
		u := &unstructured.Unstructured{Object: content}
		switch {
		case u.GetKind() == "" || u.GetAPIVersion() == "":
			return nil, errors.New("a document without apiVersion and kind")
		case u.IsList():
			err = u.EachListItem(func(o runtime.Object) error {
				out = append(out, o.(*unstructured.Unstructured))
				return nil
			})
			if err != nil {
				return nil, err
			}
		default:
			out = append(out, u)
		}
	}
}

// clients returns a client of the administrator for any object.
func (s *Server) clients() (dynamic.Interface, error) { return dynamic.NewForConfig(s.Config()) }

const crdGroup = "apiextensions.k8s.io"

// rank orders kinds: what others need comes first.
func rank(u *unstructured.Unstructured) int {
	switch gk := u.GroupVersionKind().GroupKind(); {
	case gk.Group == crdGroup:
		return 0
	case gk == schema.GroupKind{Kind: "Namespace"}:
		return 1
	case strings.HasPrefix(gk.Group, "admissionregistration"):
		return 3 // they act on all that comes after them
	}
	return 2
}

// Install creates objects, or updates those that exist, as the administrator: definitions first, whose kinds are served
// when it returns, then namespaces, and webhooks last.
func (s *Server) Install(ctx context.Context, sources ...Source) error {
	if err := s.install(ctx, sources...); err != nil {
		return fmt.Errorf("kanzentest: %w", err)
	}
	return nil
}

func (s *Server) install(ctx context.Context, sources ...Source) error {
	var all []*unstructured.Unstructured
	for _, source := range sources {
		more, err := source.Read()
		if err != nil {
			return err
		}
		all = append(all, more...)
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })
	c, err := s.clients()
	if err != nil {
		return err
	}
	m := &mapper{server: s}
	for n, u := range all {
		if err := s.installOne(ctx, c, m, u); err != nil {
			return fmt.Errorf("install %s %s: %w", u.GetKind(), u.GetName(), err)
		}
		if rank(u) == 0 && (n+1 == len(all) || rank(all[n+1]) != 0) {
			if err := s.established(ctx, c, all[:n+1]); err != nil {
				return err
			}
		}
	}
	return s.plane.CatchUp(ctx)
}

func (s *Server) installOne(ctx context.Context, c dynamic.Interface, m *mapper, u *unstructured.Unstructured) error {
	gvr, namespaced, err := m.resource(u.GroupVersionKind())
	if err != nil {
		return err
	}
	var r dynamic.ResourceInterface = c.Resource(gvr)
	if namespaced {
		ns := u.GetNamespace()
		if ns == "" {
			ns = metav1.NamespaceDefault
		}
		r = c.Resource(gvr).Namespace(ns)
	}
	_, err = r.Create(ctx, u, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	return poll(ctx, func() (bool, error) {
		there, err := r.Get(ctx, u.GetName(), metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		update := u.DeepCopy()
		update.SetResourceVersion(there.GetResourceVersion())
		_, err = r.Update(ctx, update, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			return false, nil
		}
		return true, err
	})
}

// established waits until definitions are served.
func (s *Server) established(ctx context.Context, c dynamic.Interface, definitions []*unstructured.Unstructured) error {
	for _, d := range definitions {
		if d.GetKind() != "CustomResourceDefinition" {
			continue
		}
		last := ""
		err := poll(ctx, func() (bool, error) {
			now, err := c.Resource(definitionsOf(d)).Get(ctx, d.GetName(), metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			conditions, _, _ := unstructured.NestedSlice(now.Object, "status", "conditions")
			for _, each := range conditions {
				cond, _ := each.(map[string]any)
				if cond["status"] == "False" {
					last = fmt.Sprintf("%v: %v", cond["reason"], cond["message"])
				}
				if cond["type"] == "NamesAccepted" && cond["status"] == "False" {
					return false, fmt.Errorf("the names of %s are not accepted: %v", d.GetName(), cond["message"])
				}
				if cond["type"] == "Established" && cond["status"] == "True" {
					return true, nil
				}
			}
			return false, nil
		})
		if err != nil {
			return fmt.Errorf("%s is not established: %w %s", d.GetName(), err, last)
		}
	}
	return s.plane.CatchUp(ctx) // discovery has them now
}

func definitionsOf(d *unstructured.Unstructured) schema.GroupVersionResource {
	return d.GroupVersionKind().GroupVersion().WithResource("customresourcedefinitions")
}

// mapper finds the resources of kinds. It reads discovery only for kinds that it does not know.
type mapper struct {
	server *Server
	read   meta.RESTMapper
}

// resource returns a kind's resource and whether it is in namespaces.
func (m *mapper) resource(gvk schema.GroupVersionKind) (schema.GroupVersionResource, bool, error) {
	if namespaced, ok := common[gvk.GroupKind()]; ok {
		r, _ := meta.UnsafeGuessKindToResource(gvk)
		return r, namespaced, nil
	}
	if m.read == nil {
		d, err := discovery.NewDiscoveryClientForConfig(m.server.Config())
		if err != nil {
			return schema.GroupVersionResource{}, false, err
		}
		groups, err := restmapper.GetAPIGroupResources(d)
		if err != nil {
			return schema.GroupVersionResource{}, false, err
		}
		m.read = restmapper.NewDiscoveryRESTMapper(groups)
	}
	found, err := m.read.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return schema.GroupVersionResource{}, false, err
	}
	return found.Resource, found.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// common are kinds that tests install often, by whether they are in namespaces.
var common = map[schema.GroupKind]bool{
	{Group: crdGroup, Kind: "CustomResourceDefinition"}: false,
	{Kind: "Namespace"}: false, {Kind: "Secret"}: true, {Kind: "ServiceAccount"}: true,
	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}:   false,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}: false,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:                       false,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}:                false,
	{Group: "rbac.authorization.k8s.io", Kind: "Role"}:                              true,
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:                       true,
}
