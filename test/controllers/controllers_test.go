// Package controllers compares controllers in kanzen with those of kube-controller-manager: they must end in the same objects.
package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
	"github.com/kanzen-io/kanzen/test/peer"
)

// side is a server with its controllers.
type side struct {
	t       *testing.T
	objects dynamic.Interface
}

// compare asks kanzen, and what is recorded of kube-apiserver with kube-controller-manager, for what a controller does.
func compare(t *testing.T, name, gates, runtimeConfig, controller string, ask func(*side) string) {
	t.Helper()
	flags := []string{"--feature-gates=" + gates, "--runtime-config=" + runtimeConfig, "--disable-admission-plugins=ServiceAccount"}
	want := peer.NewRecorded[string](t, name).Answer("kube-controller-manager", func() string {
		c := peer.Start(t, flags...)
		peer.StartManager(t, c, "--controllers="+controller, "--feature-gates="+gates)
		return ask(newSide(t, c))
	})
	got := ask(newSide(t, kanzentest.Start(t, kanzentest.Controllers(controller), kanzentest.Flags(flags...)).Config()))
	if got != want {
		t.Errorf("kanzen:\n%s\nkube-controller-manager:\n%s", got, want)
	}
}

func newSide(t *testing.T, c *rest.Config) *side {
	t.Helper()
	objects, err := dynamic.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return &side{t, objects}
}

var (
	pods     = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	groups   = schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1beta1", Resource: "podgroups"}
	slicesV1 = schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "resourceslices"}
	claims   = schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaims"}
	taints   = schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "devicetaintrules"}
	requests = schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1alpha3", Resource: "resourcepoolstatusrequests"}
)

// create makes the objects of a manifest, with their status.
func (s *side) create(gvr schema.GroupVersionResource, kind, manifest string) *unstructured.Unstructured {
	s.t.Helper()
	obj := map[string]any{}
	if err := yaml.Unmarshal([]byte(manifest), &obj); err != nil {
		s.t.Fatal(err)
	}
	obj["apiVersion"], obj["kind"] = gvr.GroupVersion().String(), kind
	u := &unstructured.Unstructured{Object: obj}
	var client dynamic.ResourceInterface = s.objects.Resource(gvr)
	if ns := u.GetNamespace(); ns != "" {
		client = s.objects.Resource(gvr).Namespace(ns)
	}
	made, err := client.Create(s.t.Context(), u, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatalf("%s: %v", manifest, err)
	}
	if status, ok := obj["status"]; ok {
		made.Object["status"] = status
		if made, err = client.UpdateStatus(s.t.Context(), made, metav1.UpdateOptions{}); err != nil {
			s.t.Fatalf("%s: %v", manifest, err)
		}
	}
	return made
}

// await waits until so returns a fact.
func (s *side) await(what string, so func(ctx context.Context) (string, bool)) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	for {
		if fact, ok := so(ctx); ok {
			return fact
		}
		select {
		case <-ctx.Done():
			s.t.Fatalf("not within a minute: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestPodGroupProtection deletes groups that have pods and that have none.
func TestPodGroupProtection(t *testing.T) {
	compare(t, "podgroups", "GenericWorkload=true", "scheduling.k8s.io/v1beta1=true", "podgroup-protection-controller", podGroups)
}

func podGroups(s *side) string {
	ctx, in := s.t.Context(), s.objects.Resource(groups).Namespace("default")
	var out []string
	gone := func(name string) bool {
		_, err := in.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}
	pod := func(name, group, phase string) {
		s.create(pods, "Pod", fmt.Sprintf("{metadata: {name: %s, namespace: default}, spec: {schedulingGroup: {podGroupName: %s}, containers: [{name: c, image: i}]}, status: {phase: %s}}", name, group, phase))
	}
	for _, name := range []string{"empty", "ended", "deleted", "succeeds", "foreign"} {
		g := s.create(groups, "PodGroup", "{metadata: {name: "+name+", namespace: default}, spec: {schedulingPolicy: {basic: {}}}}")
		out = append(out, fmt.Sprint(name, g.GetFinalizers()))
	}
	pod("ended", "ended", "Failed")
	pod("deleted", "deleted", "Running")
	pod("succeeds", "succeeds", "Running")
	if _, err := in.Patch(ctx, "foreign", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":["example.com/f"]}}`), metav1.PatchOptions{}); err != nil {
		s.t.Fatal(err)
	}
	for _, name := range []string{"empty", "ended", "deleted", "succeeds", "foreign"} {
		if err := in.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, name := range []string{"empty", "ended"} {
		s.await(name+" is gone", func(context.Context) (string, bool) { return "", gone(name) })
	}
	for _, name := range []string{"deleted", "succeeds", "foreign"} {
		g, err := in.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			s.t.Fatal(err)
		}
		out = append(out, fmt.Sprint(name, g.GetFinalizers(), g.GetDeletionTimestamp() != nil))
	}
	now := int64(0)
	if err := s.objects.Resource(pods).Namespace("default").Delete(ctx, "deleted", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.objects.Resource(pods).Namespace("default").Patch(ctx, "succeeds", "application/merge-patch+json", []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status"); err != nil {
		s.t.Fatal(err)
	}
	for _, name := range []string{"deleted", "succeeds"} {
		s.await(name+" is gone", func(context.Context) (string, bool) { return "", gone(name) })
	}
	return strings.Join(out, "\n")
}

// TestPoolStatus asks for the status of pools of each shape.
func TestPoolStatus(t *testing.T) {
	compare(t, "poolstatuses", "DRAResourcePoolStatus=true,DRAPartitionableDevices=true,DRAPartitionableDevicesType=true,DRAConsumableCapacity=true,DRADeviceTaintRules=true,DRADeviceTaints=true,DRAAdminAccess=true",
		"resource.k8s.io/v1alpha3=true", "resourcepoolstatusrequest-controller", poolStatuses)
}

// poolStatuses are the answers to the requests in testdata.
func poolStatuses(s *side) string {
	s.t.Helper()
	data, err := os.ReadFile("testdata/pools.yaml")
	if err != nil {
		s.t.Fatal(err)
	}
	var names []string
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		switch {
		case strings.Contains(document, "kind: ResourceSlice\n"):
			s.create(slicesV1, "ResourceSlice", document)
		case strings.Contains(document, "kind: ResourceClaim\n"):
			s.create(claims, "ResourceClaim", document)
		case strings.Contains(document, "kind: DeviceTaintRule\n"):
			s.create(taints, "DeviceTaintRule", document)
		case strings.Contains(document, "kind: ResourcePoolStatusRequest\n"):
			names = append(names, s.create(requests, "ResourcePoolStatusRequest", document).GetName())
		default:
			s.t.Fatalf("of no kind: %s", document)
		}
	}
	slices.Sort(names)
	var out []string
	for _, name := range names {
		out = append(out, name+": "+s.await("an answer to "+name, func(ctx context.Context) (string, bool) {
			r, err := s.objects.Resource(requests).Get(ctx, name, metav1.GetOptions{})
			if err != nil || r.Object["status"] == nil {
				return "", false
			}
			status := r.Object["status"].(map[string]any)
			for _, c := range status["conditions"].([]any) {
				delete(c.(map[string]any), "lastTransitionTime")
			}
			text, err := json.MarshalIndent(status, "", " ")
			return string(text), err == nil
		}))
	}
	return strings.Join(out, "\n")
}
