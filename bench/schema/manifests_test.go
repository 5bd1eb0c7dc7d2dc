package schema

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/kanzen-io/kanzen/internal/object/schema"
)

func projects(t *testing.T) (names []string) {
	entries, err := os.ReadDir(manifests)
	if err != nil {
		t.Skip(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// TestManifests compares both on the custom resources of real projects, and on
// changed copies of them.
func TestManifests(t *testing.T) {
	for _, project := range projects(t) {
		t.Run(project, func(t *testing.T) {
			all := kinds(t, project)
			objects := 0
			for _, k := range all {
				ours, theirs := both(t, k.props)
				merge := peerType(t, k.crd, k.version)
				for i, obj := range k.objects {
					objects++
					r := newRandom(*seed, uint64(i))
					sameOf(t, k, ours, theirs, obj)
					for _, often := range []int{1, 5, 10} {
						changed, ok := clone(r.changed(k.props, obj, often)).(map[string]any)
						if !ok {
							continue
						}
						changed["apiVersion"], changed["kind"] = obj["apiVersion"], obj["kind"]
						sameOf(t, k, ours, theirs, changed)
						compareTypes(t, k.props, ours, merge, cloneObject(obj), changed)
					}
				}
			}
			t.Logf("%d kinds, %d objects", len(all), objects)
		})
	}
}

func sameOf(t *testing.T, k *kind, ours *schema.Schema, theirs *peer, obj map[string]any) {
	t.Helper()
	c := comparison{t: t, p: &props{Type: k.name}, theirs: theirs, ours: ours, obj: cloneObject(obj)}
	a, b := cloneObject(obj), cloneObject(obj)
	unknownA, errA := ours.Coerce(a, schema.CoerceOptions{ReportUnknown: true})
	unknownB, errB := theirs.coerce(b, false, true)
	c.equal("coerce: error", errA != nil, errB != nil)
	c.equal("coerce: unknown fields", sorted(unknownA), sorted(unknownB))
	ours.Default(a)
	theirs.defaults(b)
	c.equal("coerce and default", a, b)
	if t.Failed() || errA != nil {
		return
	}
	c.similar("create",
		func() []string { return lines(ours.ValidateCreate(context.Background(), a).Errors) },
		func() []string { return lines(theirs.create(b)) })
}

// TestExpected compares the objects that kube-apiserver made of the custom
// resources of real projects.
func TestExpected(t *testing.T) {
	for _, project := range projects(t) {
		t.Run(project, func(t *testing.T) {
			byName := map[string]*kind{}
			for _, k := range kinds(t, project) {
				byName[k.group+"/"+k.version+" "+k.name] = k
			}
			docs := map[string]map[string]any{}
			for _, k := range byName {
				for _, obj := range k.objects {
					meta, _ := obj["metadata"].(map[string]any)
					name, _ := meta["name"].(string)
					key := k.group + "/" + k.version + " " + k.name + " " + name
					if docs[key] != nil {
						docs[key] = map[string]any{} // there are two of the name
						continue
					}
					docs[key] = obj
				}
			}
			text, err := os.ReadFile(filepath.Join(manifests, project, "expected.jsonl"))
			if err != nil {
				t.Skip(err)
			}
			compared := 0
			lines := bufio.NewScanner(bytes.NewReader(text))
			lines.Buffer(nil, 64<<20)
			for lines.Scan() {
				var want struct {
					APIVersion, Kind, Name string
					Code                   int
					Object                 map[string]any
				}
				if err := json.Unmarshal(lines.Bytes(), &want); err != nil {
					t.Fatal(err)
				}
				k := byName[want.APIVersion+" "+want.Kind]
				doc := docs[want.APIVersion+" "+want.Kind+" "+want.Name]
				if k == nil || len(doc) == 0 || want.Object == nil {
					continue
				}
				s, _ := schema.Compile(k.props, schema.Options{})
				obj := cloneObject(doc)
				through(t, s, obj)
				if v := s.ValidateCreate(context.Background(), obj); want.Code < 300 && len(v.Errors) > 0 {
					t.Error(want.Kind, want.Name, v.Errors.ToAggregate())
				}
				for _, v := range k.crd.Spec.Versions {
					if v.Storage && v.Name != k.version { // it goes to etcd and back
						stored, _ := schema.Compile(v.Schema.OpenAPIV3Schema, schema.Options{})
						through(t, stored, obj)
						through(t, s, obj)
					}
				}
				for _, name := range []string{"metadata", "status"} {
					delete(obj, name)
					delete(want.Object, name)
				}
				compared++
				if got, want := clone(obj), clone(want.Object); !reflect.DeepEqual(got, want) {
					t.Errorf("%s\nwant %s", encode(got), encode(want))
				}
			}
			t.Log(compared, "objects")
		})
	}
}

func through(t *testing.T, s *schema.Schema, obj map[string]any) {
	t.Helper()
	if _, err := s.Coerce(obj, schema.CoerceOptions{}); err != nil {
		t.Error(obj["kind"], err)
	}
	s.Default(obj)
}
