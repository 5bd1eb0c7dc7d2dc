package facts

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/kanzen-io/kanzen/test/goldens"
)

// volatile are fields that differ from start to start, or that tell when and not what.
var volatile = map[string]bool{
	"uid": true, "resourceVersion": true, "creationTimestamp": true, "managedFields": true, "generation": true, "selfLink": true,
	"clusterIP": true, "clusterIPs": true, "nodePort": true, "healthCheckNodePort": true, "lastTransitionTime": true, "renewTime": true, "acquireTime": true,
	"holderIdentity": true, "generateName": true,
}

// objects are those that the server makes itself, field by field.
func objects(ctx context.Context, s *Server, f Facts) error {
	seen := map[string]bool{}
	return s.lists(ctx, func(path, name string) error {
		// What happens and who holds what, and when, differs from start to start.
		if strings.HasSuffix(name, " events") || strings.HasSuffix(name, " leases") {
			return nil
		}
		var list struct {
			Items []map[string]any `json:"items"`
		}
		if err := s.decode(ctx, path, "", &list); err != nil {
			return err
		}
		for _, o := range list.Items {
			md, _ := o["metadata"].(map[string]any)
			id := name + " " + nameOf(md)
			if seen[fmt.Sprint(md["uid"])] { // in another version
				continue
			}
			seen[fmt.Sprint(md["uid"])] = true
			f.add("made", "object", id)
			delete(o, "status")
			leaves(o, "", func(field, value string) { f.add(strings.ReplaceAll(value, s.port, "PORT"), "object", id, field) })
		}
		return nil
	})
}

// nameOf is namespace and name. What is named by the host or at random has a name for all.
func nameOf(md map[string]any) string {
	name, _ := md["name"].(string)
	if strings.HasPrefix(name, "apiserver-") && len(name) > 30 {
		name = "apiserver-*"
	}
	if ns, ok := md["namespace"].(string); ok {
		return ns + "/" + name
	}
	return name
}

// anew are values that are others at each start.
var anew = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:.]+Z`)

// leaves calls each for all values below one. Lists of objects are numbered.
func leaves(value any, path string, each func(path, value string)) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if !volatile[key] {
				leaves(inner, strings.TrimPrefix(path+"."+key, "."), each)
			}
		}
	case []any:
		for i, inner := range v {
			if _, ok := inner.(map[string]any); !ok {
				text, _ := json.Marshal(v)
				each(path, string(text))
				return
			}
			leaves(inner, fmt.Sprintf("%s[%d]", path, i), each)
		}
	default:
		text, _ := json.Marshal(v)
		if len(text) > 500 {
			text = fmt.Appendf(nil, "%d bytes", len(text))
		}
		each(path, anew.ReplaceAllString(string(text), "*"))
	}
}

// defaults are what the server makes of the manifests of the recorded answers (test/goldens/base), without storing it: fields that it
// adds and drops.
func defaults(ctx context.Context, s *Server, f Facts) error {
	for _, m := range goldens.Manifests() {
		if m.Namespace != "" {
			if _, _, err := s.ask(ctx, http.MethodPost, "/api/v1/namespaces", "", `{"metadata":{"name":"`+m.Namespace+`"}}`); err != nil {
				return err
			}
		}
		body, err := json.Marshal(m.Object)
		if err != nil {
			return err
		}
		code, answer, err := s.ask(ctx, http.MethodPost, m.Collection+"?dryRun=All&fieldValidation=Warn", "", string(body))
		if err != nil {
			return err
		}
		f.add(fmt.Sprint(code), "created", m.ID)
		var o any
		if code != http.StatusCreated || json.Unmarshal(answer, &o) != nil {
			continue
		}
		leaves(o, "", func(field, value string) { f.add(value, "created", m.ID, field) })
	}
	return nil
}
