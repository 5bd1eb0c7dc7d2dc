//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kanzen-io/kanzen/test/machine"
)

// metacontroller has a go.mod that names another path than that of its repository. This version can be had as a module all the same.
var metacontroller = operator{
	name:     "metacontroller",
	modules:  []module{{path: "github.com/metacontroller/metacontroller@v1.5.20", sum: "h1:uRuj/1LRa5FkZyiMrx+b1Ei/lplmDNeArd0XXrOUNtk="}},
	programs: map[string]string{"metacontroller": "."},
	install:  installMetacontroller,
	steps: []step{
		{"a parent of a composite controller gets its children and a status", compositeSyncs},
		{"children follow the parent", childrenFollow},
		{"a child that somebody else changed is put right", childIsMended},
		{"a child that was deleted is made again", childReturns},
		{"a child that is no longer wanted goes", childGoes},
		{"the hook finalizes a parent before it goes, and its children go with it", parentFinalizes},
		{"a decorator controller adds to objects with an annotation, and to no others", decorates},
		{"what a decorator added goes with its object", undecorates},
		{"children of a cluster's parent are in several namespaces", clusterParent},
	},
}

const (
	greeter = "apiVersion: hooks.example.com/v1\nkind: Greeter\nmetadata: {name: %s}\nspec: {who: [%s], words: %s}"
	hooks   = "hooks.example.com/v1"
)

func installMetacontroller(ctx context.Context, w *world) error {
	if err := w.serveHooks(); err != nil {
		return err
	}
	dir := "manifests/production/metacontroller"
	manifests, err := w.files(dir+"-namespace.yaml", dir+"-rbac.yaml", dir+"-crds-v1.yaml", dir+".yaml")
	if err != nil {
		return err
	}
	// It finds out about new resources every twenty seconds: the parents' are there before it starts.
	if err := w.install(ctx, "metacontroller", namespaceOf("team")+namespaceOf("other")+definition("Greeter", "Namespaced")+definition("Everywhere", "Cluster")+manifests); err != nil {
		return err
	}
	return w.available(ctx, "metacontroller")
}

// definition is a CRD of a kind with a spec and a status of anything.
func definition(kind, scope string) string {
	return strings.NewReplacer("$KIND", kind, "$LOWER", strings.ToLower(kind), "$SCOPE", scope).Replace(`---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: $LOWERs.hooks.example.com}
spec:
  group: hooks.example.com
  names: {kind: $KIND, plural: $LOWERs, singular: $LOWER}
  scope: $SCOPE
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}, status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
---
`)
}

const hookAddress = machine.Address + ":8099"

// serveHooks serves the hooks of all controllers of this run.
func (w *world) serveHooks() error {
	l, err := net.Listen("tcp", hookAddress)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/greet", hook(greet))
	mux.HandleFunc("/decorate", hook(decorate))
	mux.HandleFunc("/everywhere", hook(everywhere))
	go func() { _ = http.Serve(l, mux) }() // it ends with the process
	return nil
}

// asked is what a hook is asked, and answer what it answers.
type (
	asked struct {
		Parent, Object unstructured.Unstructured
		Children       map[string]map[string]any
		Attachments    map[string]map[string]any
		Finalizing     bool
	}
	answer struct {
		Status      map[string]any    `json:"status,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
		Children    []any             `json:"children"`
		Attachments []any             `json:"attachments"`
		Finalized   bool              `json:"finalized"`
	}
)

func hook(of func(asked) answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var a struct {
			Parent, Object        map[string]any
			Children, Attachments map[string]map[string]any
			Finalizing            bool
		}
		if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(of(asked{unstructured.Unstructured{Object: a.Parent}, unstructured.Unstructured{Object: a.Object}, a.Children, a.Attachments, a.Finalizing}))
	}
}

func configMap(name string, data map[string]any) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": data}
}

// greet has a config map for each of those who are to be greeted. Nobody is greeted by a parent that goes.
func greet(a asked) answer {
	who, _, _ := unstructured.NestedStringSlice(a.Parent.Object, "spec", "who")
	words, _, _ := unstructured.NestedString(a.Parent.Object, "spec", "words")
	out := answer{Status: map[string]any{"greeted": len(a.Children["ConfigMap.v1"])}, Children: []any{}}
	if a.Finalizing {
		out.Finalized = len(a.Children["ConfigMap.v1"]) == 0
		return out
	}
	for _, name := range who {
		out.Children = append(out.Children, configMap(a.Parent.GetName()+"-"+name, map[string]any{"greeting": words + " " + name}))
	}
	return out
}

// decorate gives a service a config map of its name.
func decorate(a asked) answer {
	return answer{Attachments: []any{configMap("of-"+a.Object.GetName(), map[string]any{"type": "of a service"})}, Annotations: map[string]string{"hooks.example.com/decorated": "yes"}}
}

func everywhere(a asked) answer {
	var out answer
	for _, namespace := range []string{"team", "other"} {
		m := configMap(a.Parent.GetName(), map[string]any{"is": "everywhere"})
		m["metadata"].(map[string]any)["namespace"] = namespace
		out.Children = append(out.Children, m)
	}
	return out
}

func compositeSyncs(ctx context.Context, w *world) error {
	if err := w.apply(ctx, "team", `
apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: greeters}
spec:
  generateSelector: true
  parentResource: {apiVersion: hooks.example.com/v1, resource: greeters}
  childResources: [{apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}]
  hooks:
    sync: {webhook: {url: "http://`+hookAddress+`/greet"}}
    finalize: {webhook: {url: "http://`+hookAddress+`/greet"}}
---
`+fmt.Sprintf(greeter, "g", "ann, bob", "hello")); err != nil {
		return err
	}
	if err := w.until(ctx, child("ann"), value("data.greeting", "hello ann")); err != nil {
		return err
	}
	return w.until(ctx, key{hooks, "Greeter", "team/g"}, value("status.greeted", 2))
}

func child(name string) key { return key{"v1", "ConfigMap", "team/g-" + name} }

func childrenFollow(ctx context.Context, w *world) error {
	if err := w.apply(ctx, "team", fmt.Sprintf(greeter, "g", "ann, bob, eve", "good day")); err != nil {
		return err
	}
	for _, name := range []string{"ann", "bob", "eve"} {
		if err := w.until(ctx, child(name), value("data.greeting", "good day "+name)); err != nil {
			return err
		}
	}
	return w.until(ctx, key{hooks, "Greeter", "team/g"}, value("status.greeted", 3))
}

func childIsMended(ctx context.Context, w *world) error {
	if err := w.change(ctx, child("bob"), func(u *unstructured.Unstructured) error {
		return unstructured.SetNestedField(u.Object, "nonsense", "data", "greeting")
	}); err != nil {
		return err
	}
	return w.until(ctx, child("bob"), value("data.greeting", "good day bob"))
}

func childReturns(ctx context.Context, w *world) error {
	old, err := w.get(ctx, child("ann"))
	if err != nil {
		return err
	}
	if err := w.delete(ctx, child("ann")); err != nil {
		return err
	}
	return w.until(ctx, child("ann"), func(u *unstructured.Unstructured) error {
		if u.GetUID() == old.GetUID() {
			return errors.New("it is the one that was deleted")
		}
		return nil
	})
}

func childGoes(ctx context.Context, w *world) error {
	if err := w.apply(ctx, "team", fmt.Sprintf(greeter, "g", "ann", "good day")); err != nil {
		return err
	}
	if err := w.gone(ctx, child("eve")); err != nil {
		return err
	}
	return w.until(ctx, key{hooks, "Greeter", "team/g"}, value("status.greeted", 1))
}

func parentFinalizes(ctx context.Context, w *world) error {
	parent := key{hooks, "Greeter", "team/g"}
	u, err := w.get(ctx, parent)
	if err != nil {
		return err
	}
	if len(u.GetFinalizers()) == 0 {
		return errors.New("the parent has no finalizer")
	}
	if err := w.delete(ctx, parent); err != nil {
		return err
	}
	if err := w.gone(ctx, child("ann")); err != nil {
		return err
	}
	return w.gone(ctx, parent)
}

const serviceOf = `---
apiVersion: v1
kind: Service
metadata: {name: %s, annotations: %s}
spec: {ports: [{port: 80}]}
`

func decorates(ctx context.Context, w *world) error {
	if err := w.apply(ctx, "team", `
apiVersion: metacontroller.k8s.io/v1alpha1
kind: DecoratorController
metadata: {name: services}
spec:
  resources: [{apiVersion: v1, resource: services, annotationSelector: {matchExpressions: [{key: decorate, operator: In, values: ["true"]}]}}]
  attachments: [{apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}]
  hooks: {sync: {webhook: {url: "http://`+hookAddress+`/decorate"}}}
`+fmt.Sprintf(serviceOf, "plain", "{}")+fmt.Sprintf(serviceOf, "pretty", `{decorate: "true"}`)); err != nil {
		return err
	}
	if err := w.until(ctx, attached("pretty"), value("data.type", "of a service")); err != nil {
		return err
	}
	if err := w.until(ctx, key{"v1", "Service", "team/pretty"}, func(u *unstructured.Unstructured) error {
		if u.GetAnnotations()["hooks.example.com/decorated"] != "yes" {
			return fmt.Errorf("its annotations are %v", u.GetAnnotations())
		}
		return nil
	}); err != nil {
		return err
	}
	if _, err := w.get(ctx, attached("plain")); err == nil {
		return errors.New("a service without the annotation is decorated")
	}
	return nil
}

func attached(name string) key { return key{"v1", "ConfigMap", "team/of-" + name} }

func undecorates(ctx context.Context, w *world) error {
	if err := w.delete(ctx, key{"v1", "Service", "team/pretty"}); err != nil {
		return err
	}
	return w.gone(ctx, attached("pretty"))
}

func clusterParent(ctx context.Context, w *world) error {
	if err := w.apply(ctx, "", `
apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: everywheres}
spec:
  generateSelector: true
  parentResource: {apiVersion: hooks.example.com/v1, resource: everywheres}
  childResources: [{apiVersion: v1, resource: configmaps}]
  hooks: {sync: {webhook: {url: "http://`+hookAddress+`/everywhere"}}}
---
apiVersion: hooks.example.com/v1
kind: Everywhere
metadata: {name: here-and-there}
spec: {}`); err != nil {
		return err
	}
	for _, namespace := range []string{"team", "other"} {
		if err := w.until(ctx, key{"v1", "ConfigMap", namespace + "/here-and-there"}, value("data.is", "everywhere")); err != nil {
			return err
		}
	}
	return nil
}
