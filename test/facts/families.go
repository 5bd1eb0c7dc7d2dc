package facts

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// flagLine is a line of --help that begins a flag, and its text, which may go on below.
var flagLine = regexp.MustCompile(`^\s+(?:-\w, )?--([\w-]+)(?: [\w/.=,<>\[\]]+)?(?:\s{2,}(.*))?$`)

// ownDefault is the default that a text tells at its end.
var ownDefault = regexp.MustCompile(`\(default "?(.*?)"?\)\.?$`)

// flags are those that --help shows, and their defaults.
func flags(ctx context.Context, s *Server, f Facts) error {
	cmd := exec.CommandContext(ctx, s.program, "--help")
	cmd.Args[0] = "kube-apiserver"
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s --help: %w", s.program, err)
	}
	name, text := "", ""
	end := func() {
		if name == "" {
			return
		}
		value := "known"
		if d := ownDefault.FindStringSubmatch(text); d != nil {
			value = "default " + d[1]
		}
		f.add(value, "flag", "--"+name)
	}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimRight(line, "\n")
		if m := flagLine.FindStringSubmatch(line); m != nil {
			end()
			name, text = m[1], m[2]
		} else {
			text = strings.TrimSpace(text + " " + strings.TrimSpace(line))
		}
	}
	end()
	return nil
}

const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// served are the groups with their resources.
func (s *Server) served(ctx context.Context) ([]apidiscovery.APIGroupDiscovery, error) {
	var all []apidiscovery.APIGroupDiscovery
	for _, path := range []string{"/api", "/apis"} {
		var list apidiscovery.APIGroupDiscoveryList
		if err := s.decode(ctx, path, aggregated, &list); err != nil {
			return nil, err
		}
		all = append(all, list.Items...)
	}
	return all, nil
}

// discovery has resources and subresources: scope, kind, verbs, names; and the order of versions.
func discovery(ctx context.Context, s *Server, f Facts) error {
	groups, err := s.served(ctx)
	if err != nil {
		return err
	}
	for _, g := range groups {
		var versions []string
		for _, v := range g.Versions {
			versions = append(versions, v.Version)
			for _, r := range v.Resources {
				in := []string{"resource", groupVersion(g.Name, v.Version), r.Resource}
				f.add(fmt.Sprintf("%s %s verbs=%v short=%v categories=%v singular=%s", r.Scope, kind(r.ResponseKind), r.Verbs, r.ShortNames, r.Categories, r.SingularResource), in...)
				for _, sub := range r.Subresources {
					f.add(fmt.Sprintf("%s verbs=%v", kind(sub.ResponseKind), sub.Verbs), append(in, sub.Subresource)...)
				}
			}
		}
		f.add(strings.Join(versions, " "), "group", "/"+g.Name)
	}
	var paths metav1.RootPaths
	if err := s.decode(ctx, "/", "", &paths); err != nil {
		return err
	}
	for _, p := range paths.Paths {
		f.add("served", "path", p)
	}
	return nil
}

func groupVersion(group, version string) string {
	if group == "" {
		return version
	}
	return group + "/" + version
}

func kind(k *metav1.GroupVersionKind) string {
	if k == nil {
		return "-"
	}
	return strings.Trim(k.Group+"/"+k.Version+"/"+k.Kind, "/")
}

// lists calls each for the path of every list, with group, version and plural.
func (s *Server) lists(ctx context.Context, each func(path, name string) error) error {
	groups, err := s.served(ctx)
	if err != nil {
		return err
	}
	for _, g := range groups {
		for _, v := range g.Versions {
			for _, r := range v.Resources {
				path := "/apis/" + g.Name + "/" + v.Version + "/" + r.Resource
				if g.Name == "" {
					path = "/api/" + v.Version + "/" + r.Resource
				}
				if slices.Contains(r.Verbs, "list") && r.Resource != "componentstatuses" { // other programs' state
					if err := each(path, groupVersion(g.Name, v.Version)+" "+r.Resource); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// columns are those of tables.
func columns(ctx context.Context, s *Server, f Facts) error {
	return s.lists(ctx, func(path, name string) error {
		var table metav1.Table
		if err := s.decode(ctx, path+"?limit=1", "application/json;as=Table;v=v1;g=meta.k8s.io", &table); err != nil {
			return err
		}
		for i, c := range table.ColumnDefinitions {
			f.add(fmt.Sprintf("%d %s %s %d", i, c.Type, c.Format, c.Priority), "column", name, c.Name)
		}
		return nil
	})
}

// document is what is read of an OpenAPI document of version 3.
type document struct {
	Components struct {
		Schemas map[string]schema `json:"schemas"`
	} `json:"components"`
	Paths map[string]map[string]json.RawMessage `json:"paths"`
}

type schema struct {
	Type       string            `json:"type"`
	Format     string            `json:"format"`
	Ref        string            `json:"$ref"`
	Default    json.RawMessage   `json:"default"`
	Enum       []string          `json:"enum"`
	Required   []string          `json:"required"`
	Items      *schema           `json:"items"`
	Additional *schema           `json:"additionalProperties"`
	AllOf      []schema          `json:"allOf"`
	Properties map[string]schema `json:"properties"`
	ListType   string            `json:"x-kubernetes-list-type"`
	ListKeys   []string          `json:"x-kubernetes-list-map-keys"`
	Strategy   string            `json:"x-kubernetes-patch-strategy"`
	MergeKey   string            `json:"x-kubernetes-patch-merge-key"`
	MapType    string            `json:"x-kubernetes-map-type"`
}

// String tells a schema but for its properties. Defaults of items mean nothing.
func (s *schema) String() string {
	if len(s.Default) > 0 {
		return "=" + string(s.Default) + " " + s.shape()
	}
	return s.shape()
}

func (s *schema) shape() string {
	out := []string{s.Type, s.Format, strings.TrimPrefix(s.Ref, "#/components/schemas/"), s.ListType, strings.Join(s.ListKeys, ","), s.Strategy, s.MergeKey, s.MapType}
	if len(s.Enum) > 0 {
		out = append(out, "enum="+strings.Join(s.Enum, ","))
	}
	for _, inner := range append([]*schema{s.Items, s.Additional}, pointers(s.AllOf)...) {
		if inner != nil {
			out = append(out, "of", inner.shape())
		}
	}
	return strings.Join(slices.DeleteFunc(out, func(w string) bool { return w == "" }), " ")
}

func pointers(all []schema) (out []*schema) {
	for i := range all {
		out = append(out, &all[i])
	}
	return out
}

// schemas are the fields of all types in the OpenAPI documents, and the operations on paths.
func schemas(ctx context.Context, s *Server, f Facts) error {
	var index struct {
		Paths map[string]struct {
			URL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := s.decode(ctx, "/openapi/v3", "", &index); err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(index.Paths)) {
		var doc document
		if err := s.decode(ctx, index.Paths[path].URL, "", &doc); err != nil {
			return err
		}
		for name, def := range doc.Components.Schemas {
			f.add("type "+def.String(), "type", name)
			for field, p := range def.Properties {
				required := ""
				if slices.Contains(def.Required, field) {
					required = " required"
				}
				f.add(p.String()+required, "field", name, field)
			}
		}
		for path, item := range doc.Paths {
			f.add(strings.Join(slices.Sorted(maps.Keys(item)), " "), "operations", path)
		}
	}
	return nil
}

// health are the checks by name.
func health(ctx context.Context, s *Server, f Facts) error {
	for _, path := range []string{"/livez", "/readyz", "/healthz"} {
		body, err := s.get(ctx, path+"?verbose", "")
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(body)) {
			if check, ok := strings.CutPrefix(line, "[+]"); ok {
				f.add("ok", "check", path, strings.Fields(check)[0])
			}
		}
	}
	return nil
}

var (
	metricType = regexp.MustCompile(`^# TYPE (\S+) (\S+)`)
	metricLine = regexp.MustCompile(`^(\w+?)(?:_bucket|_sum|_count)?(?:\{(.*)\})? \S+$`)
	label      = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
)

// metrics are the names, types and labels of metrics that have values, and the feature gates, which are told there.
func metrics(ctx context.Context, s *Server, f Facts) error {
	body, err := s.get(ctx, "/metrics", "")
	if err != nil {
		return err
	}
	types, labels := map[string]string{}, map[string]string{}
	for line := range strings.Lines(string(body)) {
		line = strings.TrimSuffix(line, "\n")
		if m := metricType.FindStringSubmatch(line); m != nil {
			types[m[1]] = m[2]
		} else if m := metricLine.FindStringSubmatch(line); m != nil {
			if m[1] == "kubernetes_feature_enabled" {
				l := map[string]string{}
				for _, pair := range label.FindAllStringSubmatch(m[2], -1) {
					l[pair[1]] = pair[2]
				}
				f.add(l["stage"]+" "+line[len(line)-1:], "gate", l["name"])
			}
			var names []string
			for _, pair := range label.FindAllStringSubmatch(m[2], -1) {
				if pair[1] != "le" {
					names = append(names, pair[1])
				}
			}
			slices.Sort(names)
			labels[m[1]] = strings.Join(names, ",")
		}
	}
	for name, t := range types {
		f.add(strings.TrimSpace(t+" "+labels[name]), "metric", name)
	}
	return nil
}
