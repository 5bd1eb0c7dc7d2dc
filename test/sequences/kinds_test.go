package sequences

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/test/goldens"
)

// kind is what sequences are about.
type kind struct {
	group, version, kind string
	plural               string
	namespaced           bool
	subresources         []string
	versions             []string // others of the same objects, as the start of their paths: apis/autoscaling/v1
	bases                []map[string]any
	edits                []map[string]any // merge patches that somebody has thought of
}

// apart are kinds that are not in sequences of their own: what they are is the server's, or their names say what they are.
var apart = []string{"CustomResourceDefinition", "APIService", "FlowSchema", "PriorityLevelConfiguration", "IPAddress", "ServiceCIDR"}

//go:embed testdata/edits.yaml
var editsFile embed.FS

// readKinds joins the manifests of all kinds with what a server says that it serves.
func readKinds(ctx context.Context, c *rest.Config) ([]*kind, error) {
	data, err := editsFile.ReadFile("testdata/edits.yaml")
	if err != nil {
		return nil, err
	}
	edits := map[string][]map[string]any{}
	if err := yaml.UnmarshalStrict(data, &edits); err != nil {
		return nil, err
	}
	_, lists, err := discovery.NewDiscoveryClientForConfigOrDie(c).ServerGroupsAndResources()
	if err != nil {
		return nil, err
	}
	byPath := map[string]*kind{}
	var out []*kind
	for _, m := range goldens.Manifests() {
		k := newKind(m)
		if slices.Contains(apart, k.kind) {
			continue
		}
		if known := byPath[k.root()+k.plural]; known != nil {
			known.bases = append(known.bases, m.Object)
			continue
		}
		byPath[k.root()+k.plural] = k
		k.edits = edits[k.kind]
		for _, l := range lists {
			for _, r := range l.APIResources {
				name, sub, _ := strings.Cut(r.Name, "/")
				switch at := root(l.GroupVersion); {
				case name != k.plural:
				case at == k.root() && sub == "":
					k.namespaced = r.Namespaced
				case at == k.root():
					k.subresources = append(k.subresources, sub)
				case sub == "" && (strings.HasPrefix(l.GroupVersion, k.group+"/") || k.plural == "events"):
					k.versions = append(k.versions, at)
				}
			}
		}
		out = append(out, k)
	}
	return out, nil
}

func newKind(m goldens.Manifest) *kind {
	k := &kind{kind: fmt.Sprint(m.Object["kind"]), version: fmt.Sprint(m.Object["apiVersion"])}
	if g, v, ok := strings.Cut(k.version, "/"); ok {
		k.group, k.version = g, v
	}
	k.plural = m.Collection[strings.LastIndex(m.Collection, "/")+1:]
	k.bases = []map[string]any{m.Object}
	return k
}

// root is the start of the paths of a group and version.
func root(groupVersion string) string {
	if strings.Contains(groupVersion, "/") {
		return "/apis/" + groupVersion + "/"
	}
	return "/api/" + groupVersion + "/"
}

func (k *kind) apiVersion() string {
	if k.group == "" {
		return k.version
	}
	return k.group + "/" + k.version
}

func (k *kind) root() string { return root(k.apiVersion()) }

// collection is the path of the objects of a sequence, below a root.
func (k *kind) collection(root string) string {
	if k.namespaced {
		return root + "namespaces/$R/" + k.plural
	}
	return root + k.plural
}

// object is one of the bases under a name.
func (k *kind) object(base map[string]any, name string) map[string]any {
	o := clone(base)
	delete(o, "status")
	m, _ := o["metadata"].(map[string]any)
	m["name"] = name
	delete(m, "namespace")
	if k.namespaced {
		m["namespace"] = "$R"
	}
	labels, _ := m["labels"].(map[string]any)
	if labels == nil {
		labels = map[string]any{}
		m["labels"] = labels
	}
	labels["run"] = "$R"
	return o
}
