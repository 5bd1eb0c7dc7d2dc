package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/kanzen-io/kanzen/internal/config"
	forksv1 "github.com/kanzen-io/kanzen/internal/forks/v1"
)

const mergesPath = "/apis/fork.kanzen.io/v1/merges"

// mergeFork merges a fork, and returns the answer; nil: it was refused, for the reasons in causes.
func mergeFork(t *testing.T, s *server, name string, force, dryRun bool) (done *forksv1.Merge, causes []metav1.StatusCause) {
	t.Helper()
	path := mergesPath
	if dryRun {
		path += "?dryRun=All"
	}
	code, answer := send(t, s.Transport(masters), http.MethodPost, path, "application/json",
		fmt.Sprintf(`{"apiVersion":"fork.kanzen.io/v1","kind":"Merge","spec":{"fork":%q,"force":%t}}`, name, force))
	if code == http.StatusCreated {
		done = &forksv1.Merge{}
		if err := json.Unmarshal(answer, done); err != nil {
			t.Fatal(err)
		}
		return done, nil
	}
	var status metav1.Status
	if err := json.Unmarshal(answer, &status); err != nil || code != http.StatusConflict || status.Details == nil {
		t.Fatalf("%d %s", code, answer)
	}
	return nil, status.Details.Causes
}

const boxes = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"boxes.merge.example.com"},"spec":{"group":"merge.example.com","scope":"Namespaced",
	"names":{"plural":"boxes","kind":"Box"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{
	"fields":{"type":"object","additionalProperties":{"type":"string"}},
	"parts":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"value":{"type":"string"}}}},
	"tags":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
	"whole":{"type":"array","x-kubernetes-list-type":"atomic","items":{"type":"string"}}}}}}}}]}}`

const boxesPath = "/apis/merge.example.com/v1/namespaces/default/boxes"

// box is the model of an object: its fields, each with its owners. The key of a field says what it is: label, field, part, tag or whole.
type box struct {
	life   int // another number, another object of the name
	fields map[string]string
	owners map[string]string // names with a comma after each, sorted
}

func (b *box) clone() *box {
	if b == nil {
		return nil
	}
	return &box{b.life, maps.Clone(b.fields), maps.Clone(b.owners)}
}

func boxKeys() (out []string) {
	for _, kind := range []string{"label", "field", "part", "tag"} {
		out = append(out, kind+" a", kind+" b")
	}
	return append(out, "whole w")
}

// edit changes a box at random, as a manager.
func (b *box) edit(r *rand.Rand, lives *int, manager string) *box {
	switch {
	case b == nil || r.IntN(12) == 0: // made, or made anew
		*lives++
		b = &box{*lives, map[string]string{}, map[string]string{}}
	case r.IntN(8) == 0:
		return nil
	}
	was := b.clone()
	for range 1 + r.IntN(3) {
		keys := boxKeys()
		key, value := keys[r.IntN(len(keys))], []string{"", "1", "2", "3"}[r.IntN(4)]
		if strings.HasPrefix(key, "tag") && value != "" {
			value = "1"
		}
		if value == "" {
			delete(b.fields, key)
		} else {
			b.fields[key] = value
		}
	}
	b.owners = map[string]string{}
	for key, value := range b.fields {
		if b.owners[key] = was.owners[key]; was.fields[key] != value {
			b.owners[key] = manager + ","
		}
	}
	return b
}

// object is a box as an object.
func (b *box) object(name string) map[string]any {
	labels, fields := map[string]any{}, map[string]any{}
	parts, tags, whole := []any{}, []any{}, []any{}
	for _, key := range slices.Sorted(maps.Keys(b.fields)) {
		kind, name, _ := strings.Cut(key, " ")
		switch v := b.fields[key]; kind {
		case "label":
			labels[name] = v
		case "field":
			fields[name] = v
		case "part":
			parts = append(parts, map[string]any{"name": name, "value": v})
		case "tag":
			tags = append(tags, name)
		case "whole":
			whole = append(whole, v, "x")
		}
	}
	spec := map[string]any{}
	for name, v := range map[string]any{"fields": fields, "parts": parts, "tags": tags, "whole": whole} {
		if reflect.ValueOf(v).Len() > 0 {
			spec[name] = v
		}
	}
	return map[string]any{"apiVersion": "merge.example.com/v1", "kind": "Box", "metadata": map[string]any{"name": name, "labels": labels}, "spec": spec}
}

// boxOf reads an object, with the owners of its fields.
func boxOf(t *testing.T, raw []byte) *box {
	t.Helper()
	var o struct {
		Metadata metav1.ObjectMeta
		Spec     struct {
			Fields      map[string]string
			Parts       []struct{ Name, Value string }
			Tags, Whole []string
		}
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		t.Fatal(err)
	}
	b := &box{0, map[string]string{}, map[string]string{}}
	note := func(key, value string, path ...any) {
		b.fields[key] = value
		at := fieldpath.MakePathOrDie(path...)
		var names []string
		for _, e := range o.Metadata.ManagedFields {
			set := fieldpath.NewSet()
			if err := set.FromJSON(bytes.NewReader(e.FieldsV1.GetRawBytes())); err != nil {
				t.Fatal(err)
			}
			if set.Has(at) {
				names = append(names, e.Manager+",")
			}
		}
		slices.Sort(names)
		b.owners[key] = strings.Join(names, "")
	}
	for name, v := range o.Metadata.Labels {
		note("label "+name, v, "metadata", "labels", name)
	}
	for name, v := range o.Spec.Fields {
		note("field "+name, v, "spec", "fields", name)
	}
	for _, p := range o.Spec.Parts {
		note("part "+p.Name, p.Value, "spec", "parts", fieldpath.KeyByFields("name", p.Name), "value")
	}
	for _, tag := range o.Spec.Tags {
		note("tag "+tag, "1", "spec", "tags", fieldpath.ValueElement(valueOf(tag)))
	}
	if len(o.Spec.Whole) > 0 {
		note("whole w", o.Spec.Whole[0], "spec", "whole")
	}
	return b
}

// mergedBox is what a merge makes of a box by the model, with our values where there are conflicts, and these: "" is the whole object.
func mergedBox(base, ours, theirs *box) (merged *box, conflicts []string) {
	same := func(a, b *box) bool {
		return a == nil && b == nil || a != nil && b != nil && a.life == b.life && maps.Equal(a.fields, b.fields)
	}
	switch {
	case ours == nil && theirs == nil, base != nil && theirs == nil && maps.Equal(fieldsOf(base), fieldsOf(ours)):
		return nil, nil
	case ours == nil && base == nil:
		return theirs, nil
	case ours == nil && same(base, theirs):
		return nil, nil
	case ours == nil:
		return nil, []string{""}
	case theirs == nil && base != nil:
		return ours, []string{""}
	}
	if theirs == nil {
		return ours, nil
	}
	merged = &box{0, map[string]string{}, map[string]string{}}
	for _, key := range boxKeys() {
		b, o, th := fieldsOf(base)[key], ours.fields[key], theirs.fields[key]
		owners := mergedOwners(ownersOf(base)[key], ours.owners[key], theirs.owners[key])
		v := th
		switch {
		case o == th, o == b:
		case b == th:
			v = o
		default:
			conflicts = append(conflicts, key)
			v, owners = o, ours.owners[key]
		}
		if v != "" {
			merged.fields[key], merged.owners[key] = v, owners
		}
	}
	return merged, conflicts
}

func fieldsOf(b *box) map[string]string {
	if b == nil {
		return nil
	}
	return b.fields
}

func ownersOf(b *box) map[string]string {
	if b == nil {
		return nil
	}
	return b.owners
}

func mergedOwners(base, ours, theirs string) string {
	out := map[string]bool{}
	for _, name := range strings.SplitAfter(theirs, ",") {
		if strings.Contains(ours, name) || !strings.Contains(base, name) {
			out[name] = true
		}
	}
	for _, name := range strings.SplitAfter(ours, ",") {
		if !strings.Contains(base, name) {
			out[name] = true
		}
	}
	delete(out, "")
	return strings.Join(slices.Sorted(maps.Keys(out)), "")
}

// TestMergeRandom edits a few objects at random on a server and on a fork of it, and merges the fork. What is written, what is a conflict
// and who owns the fields afterwards is what a simple model says.
func TestMergeRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	s := start(t)
	rt := s.Transport(masters)
	ask := func(method, path, body string, want ...int) []byte {
		t.Helper()
		code, answer := send(t, rt, method, path, "application/json", body)
		if !slices.Contains(want, code) {
			t.Fatalf("%s %s: %d %s", method, path, code, answer)
		}
		return answer
	}
	ask(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", boxes, 201)
	eventually(t, func() bool { code, _ := send(t, rt, http.MethodGet, boxesPath, "", ""); return code == 200 })
	names := []string{"x", "y", "z"}
	write := func(prefix, name, manager string, was, is *box) {
		t.Helper()
		path := prefix + boxesPath
		if was != nil && (is == nil || is.life != was.life) {
			ask(http.MethodDelete, path+"/"+name, "", 200)
			was = nil
		}
		if is == nil {
			return
		}
		o := is.object(name)
		method, want := http.MethodPost, 201
		if was != nil {
			var now struct{ Metadata metav1.ObjectMeta }
			if err := json.Unmarshal(ask(http.MethodGet, path+"/"+name, "", 200), &now); err != nil {
				t.Fatal(err)
			}
			o["metadata"].(map[string]any)["resourceVersion"] = now.Metadata.ResourceVersion
			method, want, path = http.MethodPut, 200, path+"/"+name
		}
		body, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		ask(method, path+"?fieldManager="+manager, string(body), want)
	}
	check := func(what string, want map[string]*box) {
		t.Helper()
		for _, name := range names {
			code, raw := send(t, rt, http.MethodGet, boxesPath+"/"+name, "", "")
			if b := want[name]; b == nil {
				if code != http.StatusNotFound {
					t.Fatalf("%s: %s is there: %s", what, name, raw)
				}
			} else if got := boxOf(t, raw); code != 200 || !maps.Equal(got.fields, b.fields) || !maps.Equal(got.owners, b.owners) {
				t.Fatalf("%s: %s has %v %v, want %v %v\n%s", what, name, got.fields, got.owners, b.fields, b.owners, raw)
			}
		}
	}
	lives, clean, refused := 0, 0, 0
	theirs := map[string]*box{}
	rounds := 60
	if testing.Short() {
		rounds = 20
	}
	for n := range rounds {
		fork := fmt.Sprintf("f%d", n)
		ask(http.MethodPost, "/forks/"+fork, "", 201)
		base, ours := map[string]*box{}, map[string]*box{}
		for _, name := range names {
			base[name], ours[name] = theirs[name].clone(), theirs[name].clone()
			for range r.IntN(3) {
				was := ours[name].clone()
				ours[name] = ours[name].edit(r, &lives, "fork")
				write("/forks/"+fork, name, "fork", was, ours[name])
			}
			for range r.IntN(2) {
				was := theirs[name].clone()
				theirs[name] = theirs[name].edit(r, &lives, "server")
				write("", name, "server", was, theirs[name])
			}
		}
		merged, want := map[string]*box{}, map[string]bool{}
		for _, name := range names {
			var conflicts []string
			merged[name], conflicts = mergedBox(base[name], ours[name], theirs[name])
			for _, key := range conflicts {
				want[name+" "+key] = true
			}
		}
		what := fmt.Sprintf("seed %d, round %d", seed, n)
		check(what+", before", theirs)
		done, causes := mergeFork(t, s, fork, false, n%3 == 0)
		if got := conflictsOf(causes); !maps.Equal(got, want) {
			t.Fatalf("%s: conflicts %v, want %v\nbase %v\nours %v\ntheirs %v", what, got, want, base, ours, theirs)
		}
		if done == nil || n%3 == 0 {
			check(what+", after nothing was written", theirs)
		}
		if refused++; done != nil {
			refused, clean = refused-1, clean+1
		}
		if done == nil || n%3 == 0 {
			if done, causes = mergeFork(t, s, fork, true, false); done == nil {
				t.Fatalf("%s: refused although forced: %v", what, causes)
			}
			if len(done.Status.Overwritten) != len(want) {
				t.Fatalf("%s: %v were overwritten, want %v", what, done.Status.Overwritten, want)
			}
		}
		check(what+", merged", merged)
		if done, _ := mergeFork(t, s, fork, true, false); len(done.Status.Objects) > 0 && len(want) == 0 {
			t.Fatalf("%s: merged again: %v", what, done.Status)
		}
		ask(http.MethodDelete, "/forks/"+fork, "", 200)
		for _, name := range names { // another object, if it was written anew
			if merged[name] != nil {
				lives++
				merged[name].life = lives
			}
			theirs[name] = merged[name]
		}
	}
	t.Logf("%d merged, %d had conflicts", clean, refused)
	if clean < rounds/10 || refused < rounds/10 {
		t.Errorf("the test has become lopsided")
	}
}

// conflictsOf are conflicts as the model has them: the object, and the field.
func conflictsOf(causes []metav1.StatusCause) map[string]bool {
	out := map[string]bool{}
	for _, c := range causes {
		_, name, _ := strings.Cut(c.Message, "default/")
		name, _, _ = strings.Cut(name, ":")
		key := c.Field
		for from, to := range map[string]string{"metadata.labels.": "label ", "spec.fields.": "field ", `spec.parts[name="`: "part ", "spec.whole": "whole w"} {
			if rest, ok := strings.CutPrefix(c.Field, from); ok {
				rest, _, _ = strings.Cut(rest, `"]`)
				key = to + rest
			}
		}
		out[name+" "+key] = true
	}
	return out
}

func valueOf(v any) value.Value { return value.NewValueInterface(v) }

// mergeWorld asks a server with controllers, and forks of it.
type mergeWorld struct {
	t *testing.T
	s *server
}

func (w mergeWorld) ask(u user.Info, method, path, body string) (int, map[string]any) {
	w.t.Helper()
	media := "application/json"
	if method == http.MethodPatch {
		media = "application/merge-patch+json"
	}
	code, answer := send(w.t, w.s.Transport(u), method, path, media, body)
	var o map[string]any
	if err := json.Unmarshal(answer, &o); err != nil {
		w.t.Fatalf("%s %s: %s", method, path, answer)
	}
	return code, o
}

func (w mergeWorld) do(method, path, body string) map[string]any {
	w.t.Helper()
	code, o := w.ask(masters, method, path, body)
	if code >= 300 {
		w.t.Fatalf("%s %s: %d %v", method, path, code, o)
	}
	return o
}

func (w mergeWorld) gone(path string) bool {
	code, _ := w.ask(masters, http.MethodGet, path, "")
	return code == http.StatusNotFound
}

func textAt(o map[string]any, path ...string) string {
	v, _, _ := unstructured.NestedString(o, path...)
	return v
}

// results are what a merge has done, each as "result Kind namespace/name".
func results(m *forksv1.Merge) (out []string) {
	for _, o := range m.Status.Objects {
		out = append(out, fmt.Sprintf("%s %s %s/%s", o.Result, o.Kind, o.Namespace, o.Name))
	}
	return out
}

const coreV1, defaults = "/api/v1", "/api/v1/namespaces/default"

// TestMerge brings back what requests have written in a fork. What follows from it is left to the controllers of the server.
func TestMerge(t *testing.T) {
	w := mergeWorld{t, startWith(t, func(c *config.Config) { c.Controllers = []string{"*"} })}
	configMap := func(name, more string) string { return fmt.Sprintf(`{"metadata":{"name":%q%s}}`, name, more) }
	owned := func(by map[string]any) string {
		return fmt.Sprintf(`,"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":%q,"uid":%q}]`, textAt(by, "metadata", "name"), textAt(by, "metadata", "uid"))
	}
	w.do("POST", coreV1+"/namespaces", `{"metadata":{"name":"old"}}`)
	w.do("POST", coreV1+"/namespaces/old/configmaps", configMap("content", ""))
	owner := w.do("POST", defaults+"/configmaps", configMap("owner", ""))
	w.do("POST", defaults+"/configmaps", configMap("owned", owned(owner)))
	keeper := w.do("POST", defaults+"/configmaps", configMap("keeper", ""))
	w.do("POST", defaults+"/configmaps", configMap("kept", owned(keeper)))
	pod := `"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	web := w.do("POST", "/apis/apps/v1/namespaces/default/deployments", `{"metadata":{"name":"web"},"spec":{`+pod+`}}`)

	w.do("POST", "/forks/try", "")
	const fork = "/forks/try"
	w.do("POST", fork+coreV1+"/namespaces", `{"metadata":{"name":"team"}}`)
	w.do("POST", fork+coreV1+"/namespaces/team/configmaps", configMap("a", ""))
	w.do("POST", fork+"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", strings.ReplaceAll(boxes, "merge.example.com", "new.example.com"))
	eventually(t, func() bool {
		code, _ := send(t, w.s.Transport(masters), http.MethodGet, fork+strings.ReplaceAll(boxesPath, "merge.", "new."), "", "") // not JSON before it is served
		return code == 200
	})
	w.do("POST", fork+strings.ReplaceAll(boxesPath, "merge.", "new."), `{"apiVersion":"new.example.com/v1","kind":"Box","metadata":{"name":"b"},"spec":{"tags":["x"]}}`)
	taken := textAt(w.do("POST", fork+defaults+"/services", `{"metadata":{"name":"s"},"spec":{"type":"NodePort","ports":[{"port":80}]}}`), "spec", "clusterIP")
	w.do("DELETE", fork+coreV1+"/namespaces/old", "")
	w.do("DELETE", fork+defaults+"/configmaps/owner", "")
	w.do("DELETE", fork+defaults+"/configmaps/keeper?propagationPolicy=Orphan", "")
	parent := w.do("POST", fork+defaults+"/configmaps", configMap("parent", ""))
	w.do("POST", fork+defaults+"/configmaps", configMap("child", owned(parent)))
	w.do("POST", fork+"/apis/apps/v1/namespaces/default/replicasets", fmt.Sprintf(`{"metadata":{"name":"web-1","ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":%q,"controller":true}]},"spec":{`+pod+`}}`,
		textAt(web, "metadata", "uid")))
	w.do("PATCH", fork+"/apis/apps/v1/namespaces/default/deployments/web/status", `{"status":{"observedGeneration":1}}`)
	w.do("POST", fork+"/apis/coordination.k8s.io/v1/namespaces/default/leases", configMap("lease", ""))
	w.do("POST", fork+"/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"metadata":{"name":"more","labels":{"rbac.authorization.k8s.io/aggregate-to-view":"true"}},"rules":[{"apiGroups":["x"],"resources":["y"],"verbs":["get"]}]}`)
	eventually(t, func() bool {
		return w.gone(fork+coreV1+"/namespaces/old") && w.gone(fork+defaults+"/configmaps/owned") && w.gone(fork+defaults+"/configmaps/keeper")
	})
	w.do("POST", defaults+"/services", fmt.Sprintf(`{"metadata":{"name":"other"},"spec":{"clusterIP":%q,"ports":[{"port":80}]}}`, taken))

	// A dry run says the same and writes nothing.
	rehearsed, causes := mergeFork(t, w.s, "try", false, true)
	if rehearsed == nil || !w.gone(coreV1+"/namespaces/team") {
		t.Fatalf("the dry run: %v", causes)
	}
	done, causes := mergeFork(t, w.s, "try", false, false)
	if done == nil {
		t.Fatal(causes)
	}
	want := []string{"created Namespace /team", "created ConfigMap team/a", "created CustomResourceDefinition /boxes.new.example.com", "created Box default/b",
		"created Service default/s", "deleted Namespace /old", "deleted ConfigMap default/owner", "deleted ConfigMap default/keeper", "created ConfigMap default/parent",
		"created ConfigMap default/child", "created ClusterRole /more"}
	if got := results(done); !slices.Equal(got, want) || !slices.Equal(results(rehearsed), want) {
		t.Errorf("%q\n%q\nwant %q", got, results(rehearsed), want)
	}
	if l := done.Status.Left; len(l) != 1 || l[0].Name != "web-1" || l[0].Controller != "Deployment/web" {
		t.Errorf("left: %v", l)
	}
	if ip := textAt(w.do("GET", defaults+"/services/s", ""), "spec", "clusterIP"); ip == taken || ip == "" {
		t.Errorf("the service has %q, which is another one's", ip)
	}
	child := w.do("GET", defaults+"/configmaps/child", "")
	refs, _, _ := unstructured.NestedSlice(child, "metadata", "ownerReferences")
	if uid := textAt(w.do("GET", defaults+"/configmaps/parent", ""), "metadata", "uid"); len(refs) != 1 || refs[0].(map[string]any)["uid"] != uid || uid == textAt(parent, "metadata", "uid") {
		t.Errorf("the child belongs to %v, the parent is %s", refs, uid)
	}
	eventually(t, func() bool {
		return w.gone(coreV1+"/namespaces/old") && w.gone(defaults+"/configmaps/owned") && w.gone(defaults+"/configmaps/keeper")
	})
	if w.gone(defaults+"/configmaps/kept") || w.gone(defaults+"/configmaps/child") {
		t.Error("what was kept in the fork is gone")
	}
	if !w.gone("/apis/apps/v1/namespaces/default/replicasets/web-1") || !w.gone("/apis/coordination.k8s.io/v1/namespaces/default/leases/lease") {
		t.Error("what is not merged is there")
	}
	// Merged again, there is nothing left to do.
	if done, causes := mergeFork(t, w.s, "try", false, false); done == nil || len(done.Status.Objects) > 0 {
		t.Errorf("%v %v", done, causes)
	}
}

// TestMergeConflicts names what both sides have changed, and of deletions what they would take away.
func TestMergeConflicts(t *testing.T) {
	w := mergeWorld{t, startWith(t, func(c *config.Config) { c.Controllers = []string{"*"} })}
	for _, name := range []string{"gone", "stays"} {
		w.do("POST", coreV1+"/namespaces", fmt.Sprintf(`{"metadata":{"name":%q}}`, name))
		w.do("POST", coreV1+"/namespaces/"+name+"/secrets", `{"metadata":{"name":"s"},"stringData":{"password":"one"}}`)
		w.do("POST", coreV1+"/namespaces/"+name+"/configmaps", `{"metadata":{"name":"m"},"data":{"k":"one"}}`)
	}
	eventually(t, func() bool { // its controllers have made what they make in each
		return !w.gone(coreV1+"/namespaces/gone/serviceaccounts/default") && !w.gone(coreV1+"/namespaces/gone/configmaps/kube-root-ca.crt")
	})
	w.do("POST", "/forks/try", "")
	const fork, three = "/forks/try", `{"data":{"k":"three"}}`
	w.do("DELETE", fork+coreV1+"/namespaces/gone", "")
	w.do("PATCH", fork+coreV1+"/namespaces/stays/secrets/s?fieldManager=ann", `{"stringData":{"password":"two"}}`)
	w.do("PATCH", fork+coreV1+"/namespaces/stays/configmaps/m?fieldManager=ann", `{"data":{"k":"two"}}`)
	eventually(t, func() bool { return w.gone(fork + coreV1 + "/namespaces/gone") })
	w.do("PATCH", coreV1+"/namespaces/gone/configmaps/m?fieldManager=bob", three)
	w.do("PATCH", coreV1+"/namespaces/stays/secrets/s?fieldManager=bob", `{"stringData":{"password":"three"}}`)
	w.do("DELETE", coreV1+"/namespaces/stays/configmaps/m", "")

	_, causes := mergeFork(t, w.s, "try", false, false)
	var got []string
	for _, c := range causes {
		got = append(got, c.Message)
	}
	slices.Sort(got)
	want := []string{
		"v1 ConfigMap gone/m: the fork has deleted it, the server has changed it (bob)",
		"v1 ConfigMap stays/m: the fork has changed it (ann), the server has deleted it",
		"v1 Secret stays/s: data.password: the fork has (hidden) (ann), the server has (hidden) (bob)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}

	// Who merges needs the rights, for the fork, to read and to write.
	eve := &user.DefaultInfo{Name: "eve", Groups: []string{user.AllAuthenticated}}
	grant := func(name, rules string) {
		w.do("POST", rbacPath+"clusterroles", fmt.Sprintf(`{"metadata":{"name":%q},"rules":[%s]}`, name, rules))
		w.do("POST", rbacPath+"clusterrolebindings", fmt.Sprintf(`{"metadata":{"name":%q},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":%q},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"eve"}]}`, name, name))
		if err := w.s.base.objects.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	merge := func(name string) (int, string) {
		code, o := w.ask(eve, "POST", mergesPath, fmt.Sprintf(`{"spec":{"fork":%q,"force":true}}`, name))
		return code, fmt.Sprint(o["message"])
	}
	for _, step := range []struct{ grants, rules, want string }{
		{"", "", `cannot create resource "merges"`},
		{"merge", `{"apiGroups":["fork.kanzen.io"],"resources":["merges"],"verbs":["create"]}`, `cannot get path "/forks/next/api"`},
		{"fork", `{"nonResourceURLs":["/forks/next","/forks/next/*"],"verbs":["get"]}`, `cannot get resource "configmaps"`},
		{"read", `{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"]}`, ``},
	} {
		if step.grants != "" {
			grant(step.grants, step.rules)
		}
		if step.grants == "fork" { // what she may do in a fork is what she could do when it was made
			w.do("POST", "/forks/next", "")
			w.do("PATCH", "/forks/next"+coreV1+"/namespaces/gone/configmaps/m", `{"data":{"k":"four"}}`)
		}
		if code, said := merge("next"); step.want != "" && (code != http.StatusForbidden || !strings.Contains(said, step.want)) {
			t.Errorf("with %s: %d %s, want %q", step.grants, code, said, step.want)
		}
	}
	w.do("POST", "/forks/late", "")
	w.do("PATCH", "/forks/late"+coreV1+"/namespaces/gone/configmaps/m", `{"data":{"k":"four"}}`)
	grant("late", `{"nonResourceURLs":["/forks/late/*"],"verbs":["get"]}`)
	if code, said := merge("late"); code != http.StatusForbidden || !strings.Contains(said, `cannot update resource "configmaps"`) {
		t.Errorf("%d %s", code, said)
	}
	grant("write", `{"apiGroups":[""],"resources":["configmaps"],"verbs":["update"]}`)
	if code, said := merge("late"); code != http.StatusCreated {
		t.Errorf("%d %s", code, said)
	}
	if code, said := merge("none"); code != http.StatusForbidden {
		t.Errorf("%d %s", code, said)
	}
}
