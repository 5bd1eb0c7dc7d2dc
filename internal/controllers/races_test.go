package controllers_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/internal/controllers"
	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// act is a write of a controller to an object that it has looked at.
type act struct {
	// controller is who acts, on what: the resource of the write, and its verb.
	controller, verb, on string
	// prepare are the objects that the controller needs to act.
	prepare []string
	// flags are for the server. Optional.
	flags []string
	// step does what no manifest can, after prepare. Optional.
	step func(a *arena)
	// each is the time that passes again and again until the controller acts. Optional.
	each time.Duration
	// second is another object of the same name, on which the controller does nothing.
	second string
	// change is a merge patch of the first object, or of the subresource changeOf, by which the controller would not have
	// acted; "": there is none.
	change, changeOf string
	// object is "namespace/name" of the object.
	object string
	// follows says that the controller goes on with another object of the name, or makes one.
	follows bool
}

// arena is a server with one act.
type arena struct {
	t       *testing.T
	server  *kanzentest.Server
	clock   *kanzentest.Clock
	objects dynamic.Interface
}

// kinds are the resources of the manifests below.
var kinds = map[string]schema.GroupVersionResource{
	"Namespace": {Version: "v1", Resource: "namespaces"}, "ConfigMap": {Version: "v1", Resource: "configmaps"},
	"Secret": {Version: "v1", Resource: "secrets"}, "ServiceAccount": {Version: "v1", Resource: "serviceaccounts"},
	"ResourceQuota": {Version: "v1", Resource: "resourcequotas"}, "PersistentVolume": {Version: "v1", Resource: "persistentvolumes"},
	"PersistentVolumeClaim": {Version: "v1", Resource: "persistentvolumeclaims"}, "Job": {Group: "batch", Version: "v1", Resource: "jobs"},
	"ClusterRole":               {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	"ClusterRoleBinding":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
	"ValidatingAdmissionPolicy": {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"},
	"CertificateSigningRequest": {Group: "certificates.k8s.io", Version: "v1", Resource: "certificatesigningrequests"},
	"ClusterTrustBundle":        {Group: "certificates.k8s.io", Version: "v1", Resource: "clustertrustbundles"},
	"PodCertificateRequest":     {Group: "certificates.k8s.io", Version: "v1", Resource: "podcertificaterequests"},
	"ServiceCIDR":               {Group: "networking.k8s.io", Version: "v1", Resource: "servicecidrs"},
	"VolumeAttributesClass":     {Group: "storage.k8s.io", Version: "v1", Resource: "volumeattributesclasses"},
	"StorageVersion":            {Group: "internal.apiserver.k8s.io", Version: "v1alpha1", Resource: "storageversions"},
	"Lease":                     {Group: "coordination.k8s.io", Version: "v1", Resource: "leases"},
	"PodGroup":                  {Group: "scheduling.k8s.io", Version: "v1beta1", Resource: "podgroups"},
	"ResourcePoolStatusRequest": {Group: "resource.k8s.io", Version: "v1alpha3", Resource: "resourcepoolstatusrequests"},
	"StorageVersionMigration":   {Group: "storagemigration.k8s.io", Version: "v1", Resource: "storageversionmigrations"},
}

func (a *arena) resource(plural string) dynamic.NamespaceableResourceInterface {
	for _, gvr := range kinds {
		if gvr.Resource == plural {
			return a.objects.Resource(gvr)
		}
	}
	a.t.Fatalf("no such resource: %s", plural)
	return nil
}

// at returns the client for "namespace/name", and the name.
func (a *arena) at(plural, object string) (dynamic.ResourceInterface, string) {
	namespace, name, _ := strings.Cut(object, "/")
	if namespace == "" {
		return a.resource(plural), name
	}
	return a.resource(plural).Namespace(namespace), name
}

func (a *arena) create(manifest string) *unstructured.Unstructured {
	a.t.Helper()
	obj := map[string]any{}
	must(a.t, yaml.Unmarshal([]byte(manifest), &obj))
	u := &unstructured.Unstructured{Object: obj}
	gvr, ok := kinds[u.GetKind()]
	if !ok {
		a.t.Fatalf("no such kind: %s", u.GetKind())
	}
	u.SetAPIVersion(gvr.GroupVersion().String())
	var client dynamic.ResourceInterface = a.objects.Resource(gvr)
	if ns := u.GetNamespace(); ns != "" {
		client = a.objects.Resource(gvr).Namespace(ns)
	}
	made, err := client.Create(a.t.Context(), u, metav1.CreateOptions{})
	must(a.t, err)
	return made
}

func (a *arena) patch(plural, object, sub, patch string) *unstructured.Unstructured {
	a.t.Helper()
	client, name := a.at(plural, object)
	var subs []string
	if sub != "" {
		subs = []string{sub}
	}
	out, err := client.Patch(a.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subs...)
	must(a.t, err)
	return out
}

func (a *arena) delete(plural, object string, policy metav1.DeletionPropagation) {
	a.t.Helper()
	client, name := a.at(plural, object)
	must(a.t, client.Delete(a.t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}))
}

// has waits until an object has a field.
func (a *arena) has(plural, object string, field ...string) {
	a.t.Helper()
	client, name := a.at(plural, object)
	await(a.t, func(ctx context.Context) string {
		u, err := client.Get(ctx, name, metav1.GetOptions{})
		must(a.t, err)
		if _, ok, _ := unstructured.NestedFieldNoCopy(u.Object, field...); !ok {
			return fmt.Sprintf("%s has no %v", object, field)
		}
		return ""
	})
}

// purge removes an object at once, whatever holds it.
func (a *arena) purge(plural, object string) {
	a.t.Helper()
	client, name := a.at(plural, object)
	now := int64(0)
	await(a.t, func(ctx context.Context) string {
		_ = client.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		if plural == "namespaces" {
			if u, err := client.Get(ctx, name, metav1.GetOptions{}); err == nil {
				_ = unstructured.SetNestedSlice(u.Object, nil, "spec", "finalizers")
				_, _ = client.Update(ctx, u, metav1.UpdateOptions{}, "finalize")
			}
		} else {
			_, _ = client.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		}
		_, err := client.Get(ctx, name, metav1.GetOptions{})
		return gone(err)
	})
}

// race has the controller act, and between its look and its act does what swap says. It returns what swap made, the answer
// to the act, and the object afterwards (nil: there is none).
func (c *act) race(t *testing.T, swap func(a *arena) *unstructured.Unstructured) (made, after *unstructured.Unstructured, code int) {
	t.Helper()
	clk := kanzentest.NewClock(time.Time{})
	a := &arena{t: t, server: kanzentest.Start(t, kanzentest.WithClock(clk), kanzentest.Flags(c.flags...)), clock: clk}
	var err error
	a.objects, err = dynamic.NewForConfig(a.server.Config())
	must(t, err)
	namespace, name, _ := strings.Cut(c.object, "/")
	on := kanzentest.Match{Internal: true, Verbs: c.verb, Resource: c.on, Namespace: namespace, Name: name}
	var swapping sync.Mutex // a clock that is moved on meanwhile would end the requests of swap
	fault := a.server.Inject(kanzentest.Fault{On: on, Meanwhile: func() {
		swapping.Lock()
		defer swapping.Unlock()
		made = swap(a)
	}})
	for _, manifest := range c.prepare {
		a.create(manifest)
	}
	if c.step != nil {
		c.step(a)
	}
	await(t, func(context.Context) string {
		for _, r := range a.server.Requests(on) {
			if r.Fault && r.Code != 0 {
				code = r.Code
				return ""
			}
		}
		swapping.Lock()
		a.clock.Advance(c.each)
		swapping.Unlock()
		return fmt.Sprintf("the controller has not acted (%d)", fault.Applied())
	})
	plural, _, _ := strings.Cut(c.on, "/")
	client, name := a.at(strings.SplitN(plural, ".", 2)[0], c.object)
	after, err = client.Get(t.Context(), name, metav1.GetOptions{})
	if gone(err) == "" {
		return made, nil, code
	}
	must(t, err)
	return made, after, code
}

// Between the look of a controller and its act the object is deleted, replaced by somebody else's, or changed so that the
// controller would not have acted. What the controller has seen then says nothing of what is there.
func TestControllersActOnWhatTheySaw(t *testing.T) {
	t.Parallel()
	covered := map[string]bool{}
	for _, c := range acts(t) {
		covered[c.controller] = true
		plural, _, _ := strings.Cut(c.on, "/")
		swaps := map[string]func(a *arena) *unstructured.Unstructured{
			"deleted": func(a *arena) *unstructured.Unstructured { a.purge(plural, c.object); return nil },
			"replaced": func(a *arena) *unstructured.Unstructured {
				a.purge(plural, c.object)
				return a.create(c.second)
			},
		}
		if c.change != "" {
			swaps["changed"] = func(a *arena) *unstructured.Unstructured {
				return a.patch(plural, c.object, c.changeOf, c.change)
			}
		}
		for what, swap := range swaps {
			t.Run(c.controller+"/"+c.verb+" "+strings.ReplaceAll(c.on, "/", "-")+"/"+what, func(t *testing.T) {
				t.Parallel()
				made, after, code := c.race(t, swap)
				// A clock that was moved on may have passed the deadline of the request, which then has not come to act.
				if code != http.StatusNotFound && code != http.StatusConflict && code != http.StatusGatewayTimeout {
					t.Errorf("the act was answered %d", code)
				}
				switch {
				case c.follows:
				case made == nil && after != nil:
					t.Errorf("the controller made it anew: %v", after)
				case made != nil && (after == nil || after.GetUID() != made.GetUID() || after.GetResourceVersion() != made.GetResourceVersion()):
					t.Errorf("the controller acted on %v: now it is %v", made, after)
				}
			})
		}
	}
	for _, name := range controllers.Names() {
		if !covered[name] && onlyCreates[name] == "" {
			t.Errorf("no act of the %s is tried", name)
		}
	}
}

// onlyCreates are the controllers that change and delete nothing.
var onlyCreates = map[string]string{"serviceaccount-controller": "a service account that exists stays as it is"}

// A namespace is gone before its contents are deleted, and another one of its name has contents of its own: they stay.
func TestContentsOfTheNextNamespace(t *testing.T) {
	t.Parallel()
	a := &arena{t: t, server: kanzentest.Start(t)}
	var err error
	a.objects, err = dynamic.NewForConfig(a.server.Config())
	must(t, err)
	a.create("{kind: Namespace, metadata: {name: ns}}")
	a.create("{kind: ConfigMap, metadata: {namespace: ns, name: a}}")
	on := kanzentest.Match{Internal: true, Verbs: "deletecollection", Resource: "configmaps", Namespace: "ns"}
	var second []*unstructured.Unstructured
	a.server.Inject(kanzentest.Fault{On: on, Meanwhile: func() {
		a.purge("namespaces", "/ns")
		a.purge("configmaps", "ns/a")
		second = append(second, a.create("{kind: Namespace, metadata: {name: ns}}"),
			a.create("{kind: ConfigMap, metadata: {namespace: ns, name: a}}"), a.create("{kind: ConfigMap, metadata: {namespace: ns, name: b}}"))
	}})
	a.delete("namespaces", "/ns", metav1.DeletePropagationBackground)
	await(t, func(context.Context) string {
		if slices.ContainsFunc(a.server.Requests(on), func(r kanzentest.Request) bool { return r.Fault && r.Code != 0 }) {
			return ""
		}
		return "the contents were not deleted"
	})
	for n, object := range []string{"/ns", "ns/a", "ns/b"} {
		client, name := a.at([]string{"namespaces", "configmaps", "configmaps"}[n], object)
		got, err := client.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || got.GetUID() != second[n].GetUID() || got.GetResourceVersion() != second[n].GetResourceVersion() {
			t.Errorf("%s of the second namespace: %v, %v", object, got, err)
		}
	}
}
