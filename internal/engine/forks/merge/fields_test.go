package merge

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/kanzen-io/kanzen/internal/api/openapi"
	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
)

// Fields are merged as the type of their kind has them. Values are those of spec; unowned are fields that nobody owns in the fork.
func TestFields(t *testing.T) {
	kinds := openapi.NewTypeConverter()
	const pod, service, unknown = "v1 Pod", "v1 Service", "example.com/v1 Unknown"
	for name, c := range map[string]struct {
		kind, base, ours, theirs, want, conflicts, unowned string
	}{
		"new items come after the item before them": {pod, `{"containers":[{"name":"a"},{"name":"b"}]}`, `{"containers":[{"name":"a"},{"name":"x"},{"name":"b"}]}`,
			`{"containers":[{"name":"a"},{"name":"b"},{"name":"y"}]}`, `{"containers":[{"name":"a"},{"name":"x"},{"name":"b"},{"name":"y"}]}`, "", ""},
		"the side that has changed an order is right about it": {pod, `{"containers":[{"name":"a"},{"name":"b"}]}`, `{"containers":[{"name":"a","image":"i"},{"name":"b"}]}`,
			`{"containers":[{"name":"b"},{"name":"a"}]}`, `{"containers":[{"name":"b"},{"name":"a","image":"i"}]}`, "", ""},
		"fields of an item": {pod, `{"containers":[{"name":"a","image":"1","command":["x"]}]}`, `{"containers":[{"name":"a","image":"2","command":["x"]}]}`,
			`{"containers":[{"name":"a","image":"1","command":["x","y"]}]}`, `{"containers":[{"name":"a","image":"2","command":["x","y"]}]}`, "", ""},
		"an atomic list is one value": {pod, `{"containers":[{"name":"a","command":["x"]}]}`, `{"containers":[{"name":"a","command":["x","1"]}]}`,
			`{"containers":[{"name":"a","command":["2","x"]}]}`, `{"containers":[{"name":"a","command":["x","1"]}]}`, `.spec.containers[name="a"].command`, ""},
		"an item that one side removes and the other one changes": {pod, `{"containers":[{"name":"a"},{"name":"b"}]}`, `{"containers":[{"name":"a"}]}`,
			`{"containers":[{"name":"a"},{"name":"b","image":"i"}]}`, `{"containers":[{"name":"a"}]}`, `.spec.containers[name="b"]`, ""},
		"a struct that one side removes and the other one changes": {pod, `{"securityContext":{"runAsUser":1}}`, `{}`, `{"securityContext":{"runAsUser":1,"runAsGroup":2}}`, `{}`, ".spec.securityContext", ""},
		"a map is removed by what is in it":                        {pod, `{"nodeSelector":{"a":"1"}}`, `{}`, `{"nodeSelector":{"a":"1"}}`, `{}`, "", ""},
		"a key with a default": {service, `{"ports":[{"port":80}]}`, `{"ports":[{"port":80,"protocol":"TCP","name":"a"}]}`,
			`{"ports":[{"port":80,"targetPort":8080}]}`, `{"ports":[{"name":"a","port":80,"protocol":"TCP","targetPort":8080}]}`, "", ""},
		"of an item that stays, its key stays":   {service, `{}`, `{"ports":[{"port":80,"protocol":"TCP"}]}`, `{}`, `{"ports":[{"port":80,"protocol":"TCP"}]}`, "", "protocol"},
		"what nobody owns is left to the server": {service, `{}`, `{"clusterIP":"1","ports":[{"port":80,"nodePort":3}],"type":"NodePort"}`, `{}`, `{"ports":[{"port":80}],"type":"NodePort"}`, "", ".spec.clusterIP nodePort"},
		"what nobody owns is no conflict":        {service, `{"clusterIP":"1"}`, `{"clusterIP":"2"}`, `{"clusterIP":"3"}`, `{"clusterIP":"3"}`, "", ".spec.clusterIP"},
		"both have changed it alike":             {service, `{"type":"a"}`, `{"type":"b"}`, `{"type":"b"}`, `{"type":"b"}`, "", ""},
		"a key that is there twice":              {pod, `{"containers":[{"name":"a"}]}`, `{"containers":[{"name":"a"},{"name":"a"}]}`, `{"containers":[{"name":"b"}]}`, `{"containers":[{"name":"a"},{"name":"a"}]}`, ".spec.containers", ""},
		"maps of a kind that nobody knows":       {unknown, `{"a":{"x":1,"y":1}}`, `{"a":{"x":2,"y":1}}`, `{"a":{"x":1,"y":2}}`, `{"a":{"x":2,"y":2}}`, "", ""},
		"lists of a kind that nobody knows":      {unknown, `{"a":[1]}`, `{"a":[1,2]}`, `{"a":[3]}`, `{"a":[1,2]}`, ".spec.a", ""},
	} {
		of := func(spec string) any {
			o, err := jsonobject.Unmarshal([]byte(`{"spec":` + spec + `}`))
			if err != nil {
				t.Fatal(name, err)
			}
			return o
		}
		api, kind, _ := strings.Cut(c.kind, " ")
		m := merger{owned: func(at fieldpath.Path) bool {
			last := at[len(at)-1].String()
			return c.unowned == "" || !strings.HasPrefix(c.unowned, at.String()) && !strings.HasSuffix(c.unowned, strings.TrimPrefix(last, "."))
		}}
		merged, err := json.Marshal(m.object(kinds.Type(schema.FromAPIVersionAndKind(api, kind)), of(c.base), of(c.ours), of(c.theirs)))
		var conflicts []string
		for _, one := range m.conflicts {
			conflicts = append(conflicts, one.path.String())
		}
		if want, _ := json.Marshal(of(c.want)); err != nil || string(merged) != string(want) || strings.Join(conflicts, " ") != c.conflicts {
			t.Errorf("%s: %s, conflicts %q\nwant %s, %q", name, merged, conflicts, want, c.conflicts)
		}
	}
}
