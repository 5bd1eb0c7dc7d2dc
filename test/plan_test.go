package test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
)

var (
	planRounds    = flag.Int("plan.rounds", 8, "how many random edits of manifests TestPlan plans and applies")
	planSeed      = flag.Uint64("plan.seed", 1, "of the edits")
	planManifests = flag.String("plan.manifests", "", "a directory of manifests to edit instead of those of the test")
	planNamespace = flag.String("plan.namespace", "default", "namespaces to make first; those that name none go to the first one")
)

// TestPlan edits a directory of manifests at random, again and again. What `kanzen plan` says of each is what `kanzen apply` and the
// controllers after it then do: to every object of the server, field by field. What one refuses, the other refuses for the same reasons.
func TestPlan(t *testing.T) {
	t.Parallel()
	base := planBase(t)
	p := planning{t: t, k: serve(t, t.TempDir()), dir: t.TempDir(), random: rand.New(rand.NewPCG(*planSeed, 1))}
	namespaces := strings.Split(*planNamespace, ",")
	p.namespace = namespaces[0]
	for _, ns := range namespaces {
		_, _, _ = output(t, binaries.kanzen, "kubectl", "--data-dir", p.k.dir, "create", "namespace", ns) // it may be there
	}
	if !p.round("the base", base) {
		t.Fatal("the base is refused")
	}
	counts := map[bool]int{}
	for n := range *planRounds {
		edited := p.edit(base, n%4 == 3)
		counts[p.round(fmt.Sprintf("seed %d, round %d: %s", *planSeed, n, strings.Join(p.edits, ", ")), edited)]++
	}
	if counts[true] < *planRounds/2 {
		t.Errorf("%d of %d were carried out", counts[true], *planRounds)
	}
	t.Logf("%d carried out, %d refused", counts[true], counts[false])
}

// planBase are the manifests that are edited.
func planBase(t *testing.T) (out []map[string]any) {
	t.Helper()
	texts := []string{planText}
	if *planManifests != "" {
		files, err := filepath.Glob(filepath.Join(*planManifests, "*.yaml"))
		must(t, err)
		texts = nil
		for _, f := range files {
			text, err := os.ReadFile(f)
			must(t, err)
			texts = append(texts, string(text))
		}
	}
	for _, text := range texts {
		out = append(out, documentsOf(t, text)...)
	}
	return out
}

// documentsOf are the documents of a YAML text.
func documentsOf(t *testing.T, text string) (out []map[string]any) {
	t.Helper()
	for _, doc := range regexp.MustCompile(`(?m)^---.*$`).Split(text, -1) {
		var o map[string]any
		must(t, yaml.Unmarshal([]byte(doc), &o))
		if len(o) > 0 {
			out = append(out, o)
		}
	}
	return out
}

// planText has kinds whose objects have consequences, and plain ones.
const planText = `apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: store, labels: {pod-security.kubernetes.io/warn: restricted}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.plan.example.com}
spec:
  group: plan.example.com
  scope: Namespaced
  names: {plural: gadgets, kind: Gadget, shortNames: [gd]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {size: {type: integer, maximum: 90, default: 3}, colour: {type: string, enum: [red, redx, blue]}, parts: {type: array, items: {type: string}}}
---
apiVersion: plan.example.com/v1
kind: Gadget
metadata: {name: large, namespace: shop, labels: {app: a}}
spec: {size: 40, colour: red, parts: [one, two]}
---
apiVersion: plan.example.com/v1
kind: Gadget
metadata: {name: plain, namespace: store}
spec: {colour: blue}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop, annotations: {note: first}}
data: {greeting: hello, colour: red, "file.txt": "a\nb\n"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: owned, namespace: shop}
data: {a: b}
---
apiVersion: v1
kind: Secret
metadata: {name: password, namespace: shop}
stringData: {password: secret}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: web, namespace: shop}
automountServiceAccountToken: false
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}, {name: metrics, port: 9090}]}
---
apiVersion: v1
kind: Service
metadata: {name: peers, namespace: store}
spec: {clusterIP: None, selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      serviceAccountName: web
      containers:
      - {name: main, image: "example.com/web:1", args: [--verbose, --port=8080], ports: [{containerPort: 8080}], resources: {requests: {cpu: 100m}}, env: [{name: A, value: b}]}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: limits, namespace: shop}
spec: {hard: {configmaps: "10", secrets: "10", services: "5"}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: sizes, namespace: store}
spec: {limits: [{type: Container, default: {cpu: 200m}}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: gadget-viewer, labels: {rbac.authorization.k8s.io/aggregate-to-view: "true"}}
rules: [{apiGroups: [plan.example.com], resources: [gadgets], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: gadget-all}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {rbac.authorization.k8s.io/aggregate-to-view: "true"}}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: viewers, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: gadget-viewer}
subjects: [{kind: User, name: jane, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}, ingress: [{ports: [{port: 8080}]}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: shop}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: short-names.plan.example.com}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [plan.example.com], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [gadgets]}]}
  validations: [{expression: "object.metadata.name.size() < 20"}]
`

// planning plans and applies on one server.
type planning struct {
	t      *testing.T
	k      *kanzen
	dir    string
	random *rand.Rand
	// namespace is that of manifests which name none.
	namespace string
	edits     []string
}

// edit returns manifests with some random edits. wild ones may be refused.
func (p *planning) edit(base []map[string]any, wild bool) (out []map[string]any) {
	p.edits = nil
	text, err := json.Marshal(base)
	must(p.t, err)
	must(p.t, json.Unmarshal(text, &out))
	for range 2 + p.random.IntN(6) {
		n := p.random.IntN(len(out))
		o := out[n]
		meta := o["metadata"].(map[string]any)
		note := func(what string) {
			p.edits = append(p.edits, fmt.Sprintf("%s of %s %s", what, o["kind"], meta["name"]))
		}
		put := func(in map[string]any, field, key, value string) {
			if in[field] == nil {
				in[field] = map[string]any{}
			}
			in[field].(map[string]any)[key] = value
		}
		switch kind := p.random.IntN(6); {
		case kind == 0 && o["kind"] != "Namespace" && o["kind"] != "CustomResourceDefinition" && len(out) > 10:
			note("absence")
			out = slices.Delete(out, n, n+1)
		case kind == 1:
			note("label")
			put(meta, "labels", fmt.Sprint("l", p.random.IntN(3)), fmt.Sprint("v", p.random.IntN(3)))
		case kind == 2 && o["kind"] == "ConfigMap":
			note("an owner that is not there")
			meta["ownerReferences"] = []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": fmt.Sprint("none-", p.random.IntN(9))}}
		case wild:
			note(p.change(o))
		case o["data"] != nil:
			note("data")
			put(o, "data", fmt.Sprint("key", p.random.IntN(3)), fmt.Sprint("dGV4d", p.random.IntN(3), "="))
		case o["kind"] == "Deployment":
			note("replicas")
			o["spec"].(map[string]any)["replicas"] = p.random.IntN(9)
		case o["kind"] == "Gadget":
			note("size")
			o["spec"].(map[string]any)["size"] = p.random.IntN(99)
		case o["kind"] == "ClusterRole" && o["aggregationRule"] == nil:
			note("rules")
			o["rules"] = []any{map[string]any{"apiGroups": []any{"plan.example.com"}, "resources": []any{"gadgets"}, "verbs": []any{[]string{"get", "list", "watch"}[p.random.IntN(3)]}}}
		default:
			note("annotation")
			put(meta, "annotations", fmt.Sprint("a", p.random.IntN(3)), fmt.Sprint("v", p.random.IntN(99)))
		}
	}
	return out
}

// change changes or removes some field of an object, whatever that makes of it.
func (p *planning) change(o map[string]any) string {
	at, path := o, ""
	for {
		keys := slices.Sorted(maps.Keys(at))
		keys = slices.DeleteFunc(keys, func(k string) bool {
			return path == "" && (k == "apiVersion" || k == "kind") || path == ".metadata" && k == "name"
		})
		if len(keys) == 0 {
			return "nothing"
		}
		key := keys[p.random.IntN(len(keys))]
		path += "." + key
		switch v := at[key].(type) {
		case map[string]any:
			if len(v) > 0 && path != ".metadata.labels" {
				at = v
				continue
			}
			delete(at, key)
		case string:
			at[key] = v + "x"
		case float64:
			at[key] = v + float64(p.random.IntN(3)-1)
		case bool:
			at[key] = !v
		default:
			if path == ".metadata" {
				return "nothing"
			}
			delete(at, key)
		}
		return path
	}
}

// planned is what `kanzen plan -o json` says.
type planned struct {
	Objects, Consequences []plannedObject
	Others                []struct{ Group, Resource, Namespace, Name, Result string }
	Refused               []struct{ Item, Message string }
	Unsettled             bool
}

type plannedObject struct {
	APIVersion, Kind, Namespace, Name, Result string
	Fields                                    []struct {
		Path          string
		Before, After any
	}
}

func (o *plannedObject) key() string {
	gv, _ := schema.ParseGroupVersion(o.APIVersion)
	return fmt.Sprintf("%s.%s %s/%s", o.Kind, gv.Group, o.Namespace, o.Name)
}

// round plans and applies manifests, and compares. It reports whether they were carried out.
func (p *planning) round(name string, manifests []map[string]any) bool {
	t := p.t
	t.Helper()
	file := filepath.Join(p.dir, "all.yaml")
	var text strings.Builder
	for _, o := range manifests {
		doc, err := yaml.Marshal(o)
		must(t, err)
		text.WriteString("---\n" + string(doc))
	}
	must(t, os.WriteFile(file, []byte(text.String()), 0o600))
	args := []string{"-f", file, "-n", p.namespace, "--data-dir", p.k.dir}
	before := p.all()
	stdout, stderr, planCode := output(t, binaries.kanzen, append([]string{"plan", "-o", "json"}, args...)...)
	var plan planned
	if err := json.Unmarshal([]byte(stdout), &plan); err != nil {
		t.Fatalf("%s: %s%s", name, stdout, stderr)
	}
	_, errors, code := output(t, binaries.kanzen, append([]string{"apply"}, args...)...)
	if code != planCode || stderr != errors || (code == 0) != (len(plan.Refused) == 0) {
		t.Errorf("%s: plan ends with %d %s and %d refusals, apply with %d %s", name, planCode, stderr, len(plan.Refused), code, errors)
	}
	want := plan.net()
	var got map[string]string
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if got = changesBetween(before, p.all()); maps.Equal(got, want) {
			break
		}
		if time.Now().After(end) {
			break
		}
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if got[key] != want[key] {
			t.Errorf("%s\n%s: planned is\n%s\nwhat has become of it is\n%s", name, key, want[key], got[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if want[key] == "" {
			t.Errorf("%s\n%s: nothing is planned, what has become of it is\n%s", name, key, got[key])
		}
	}
	if plan.Unsettled {
		t.Errorf("%s: the plan is not complete", name)
	}
	for _, r := range plan.Refused {
		t.Logf("%s\nrefused: %s", name, r.Message)
	}
	return code == 0
}

// net is what becomes of each object in sum: that it is created or deleted, or which of its fields change.
func (p *planned) net() map[string]string {
	results, fields := map[string]string{}, map[string]map[string][2]any{}
	for _, o := range slices.Concat(p.Objects, p.Consequences) {
		key := o.key()
		was := results[key]
		switch {
		case ignoredInPlans(o.Kind) || o.Result == "unchanged":
			continue
		case was == "created" && o.Result == "deleted":
			delete(results, key)
			continue
		case was == "created":
		default:
			results[key] = o.Result
		}
		if fields[key] == nil {
			fields[key] = map[string][2]any{}
		}
		for _, f := range o.Fields {
			first, ok := fields[key][f.Path]
			if !ok {
				first[0] = f.Before
			}
			fields[key][f.Path] = [2]any{first[0], f.After}
		}
	}
	for key, result := range results {
		if result == "changed" {
			results[key] = describe(fields[key])
		}
	}
	maps.DeleteFunc(results, func(_, r string) bool { return r == "" }) // changed and changed back
	return results
}

// ignoredInPlans are kinds of which the plan does not tell what will be: names of addresses are chosen at random, and the APIServices of
// new groups are not written on a fork.
func ignoredInPlans(kind string) bool { return kind == "IPAddress" || kind == "APIService" }

var moments = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// hiddenInPlans stands for a value of a secret.
const hiddenInPlans = `"(hidden)"`

func describe(fields map[string][2]any) string {
	var lines []string
	for path, f := range fields {
		a, _ := json.Marshal(f[0])
		b, _ := json.Marshal(f[1])
		before, after := moments.ReplaceAllString(string(a), "T"), moments.ReplaceAllString(string(b), "T")
		if before != after || before == hiddenInPlans {
			lines = append(lines, fmt.Sprintf("%s: %s → %s", path, before, after))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// all are all objects of the server, without what each write changes.
func (p *planning) all() map[string]map[string]any {
	c := p.k.config()
	c.WarningHandler = rest.NoWarnings{}
	_, lists, err := discovery.NewDiscoveryClientForConfigOrDie(c).ServerGroupsAndResources()
	must(p.t, err)
	client := dynamic.NewForConfigOrDie(c)
	out := map[string]map[string]any{}
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		must(p.t, err)
		for _, r := range l.APIResources {
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") || ignoredInPlans(r.Kind) || gv.Group == "flightrecorder.kanzen.io" || r.Kind == "Event" || r.Kind == "Lease" {
				continue
			}
			objects, err := client.Resource(gv.WithResource(r.Name)).List(p.t.Context(), metav1.ListOptions{})
			must(p.t, err)
			must(p.t, objects.EachListItem(func(o runtime.Object) error {
				u := o.(*unstructured.Unstructured)
				meta := u.Object["metadata"].(map[string]any)
				for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
					delete(meta, field)
				}
				id := plannedObject{APIVersion: gv.String(), Kind: r.Kind, Namespace: u.GetNamespace(), Name: u.GetName()}
				if _, there := out[id.key()]; !there { // another version of it may be preferred
					out[id.key()] = u.Object
				}
				return nil
			}))
		}
	}
	return out
}

func hidden(v any) any {
	if v == nil {
		return nil
	}
	return json.RawMessage(hiddenInPlans)
}

func changesBetween(before, after map[string]map[string]any) map[string]string {
	out := map[string]string{}
	for key, was := range before {
		is, there := after[key]
		if !there {
			out[key] = "deleted"
			continue
		}
		fields := map[string][2]any{}
		jsonobject.Differences(was, is, func(path string, a, b any) bool {
			if is["kind"] == "Secret" {
				a, b = hidden(a), hidden(b)
			}
			fields[path] = [2]any{a, b}
			return true
		})
		if what := describe(fields); what != "" {
			out[key] = what
		}
	}
	for key := range after {
		if _, there := before[key]; !there {
			out[key] = "created"
		}
	}
	return out
}
