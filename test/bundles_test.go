package test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// shopManifests are a namespace, a definition and what needs both, in an order in which they cannot be applied one by one.
const shopManifests = `apiVersion: shop.example.com/v1
kind: Order
metadata: {name: first, namespace: shop}
spec: {items: 3}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
data: {greeting: hello}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: orders.shop.example.com}
spec:
  group: shop.example.com
  scope: Namespaced
  names: {plural: orders, kind: Order}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {items: {type: integer, maximum: 9}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
`

// TestApplyAtomic applies manifests as one, plans changes of them, and tries them on a fork.
func TestApplyAtomic(t *testing.T) {
	t.Parallel()
	k := serve(t, t.TempDir())
	file := filepath.Join(t.TempDir(), "shop.yaml")
	write := func(text string) { must(t, os.WriteFile(file, []byte(text), 0o600)) }
	run := func(wantCode int, want string, args ...string) string {
		t.Helper()
		stdout, stderr, code := output(t, binaries.kanzen, append(args, "--data-dir", k.dir)...)
		if code != wantCode || !strings.Contains(stdout+stderr, want) {
			t.Errorf("kanzen %q: %d\n%s%s\nwant %d and %q", args, code, stdout, stderr, wantCode, want)
		}
		return stdout
	}
	write(strings.Replace(shopManifests, "items: 3", "items: 10", 1))
	run(1, "nothing was written: spec.items[2]", "apply", "-f", file)
	if _, err := k.client().CoreV1().Namespaces().Get(t.Context(), "shop", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after a refusal: %v", err)
	}
	write(shopManifests)
	run(0, "+ order/first in shop", "plan", "-f", file)
	run(0, "order/first in shop created", "apply", "-f", file)
	write(strings.Replace(shopManifests, "hello", "good day", 1))
	run(0, `data.greeting: "hello" → "good day"`, "plan", "-f", file)

	run(0, "fork try was made", "fork", "create", "try")
	fork := filepath.Join(t.TempDir(), "fork")
	must(t, os.WriteFile(fork, []byte(run(0, "/forks/try", "fork", "kubeconfig", "try")), 0o600))
	stdout, stderr, code := output(t, binaries.kanzen, "apply", "-f", file, "--kubeconfig", fork)
	if code != 1 || !strings.Contains(stderr, "--extensions") { // a fork carries out no bundles
		t.Error(stdout, stderr)
	}
	p := planesOf{k, t}
	p.kubectl(fork, "", "delete", "namespace", "shop")
	p.kubectl(fork, "", "create", "configmap", "new", "-n", "default")
	diff := run(0, "- order/first in shop", "fork", "diff", "try")
	for _, want := range []string{"- namespace/shop", "- configmap/settings in shop", "+ configmap/new in default"} {
		if !strings.Contains(diff, want) {
			t.Errorf("no %q in\n%s", want, diff)
		}
	}
	p.kubectl(k.kubeconfig(), "", "get", "-n", "shop", "order/first", "configmap/settings")
	run(0, "", "fork", "delete", "try")
	run(1, `"try" not found`, "fork", "diff", "try")
}

// fruits are groups of objects that bundles keep alike.
const fruits, writersOfEach = 4, 2

// TestBundlesKilled kills a server at random moments while bundles write groups of objects, several of them the same. The objects of a
// group are alike in every list, before and after, and no acknowledged bundle is lost or counted twice.
func TestBundlesKilled(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"etcd": nil, "pebble": {"--engine=pebble"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, total := t.TempDir(), atomic.Int64{}
			var acknowledged [fruits]atomic.Int64
			var told sync.Map
			for round := range *crashes {
				k := serve(t, dir, append(args, noRootCA)...)
				client, before := k.client(), total.Load()
				ctx, cancel := context.WithCancel(t.Context())
				var wait sync.WaitGroup
				for group := range fruits {
					for range writersOfEach {
						wait.Go(func() {
							for ctx.Err() == nil {
								if value, ok := increment(ctx, t, client, group); ok {
									total.Add(1)
									if _, twice := told.LoadOrStore([2]int64{int64(group), value}, true); twice {
										t.Errorf("group %d was brought to %d twice", group, value)
									}
									atLeast(&acknowledged[group], value)
								}
							}
						})
					}
				}
				within(t, time.Minute, "bundles", func(context.Context) bool { return total.Load() > before+2 })
				time.Sleep(time.Duration(round*7%40) * time.Millisecond)
				k.kill()
				cancel()
				wait.Wait()
			}
			c := serve(t, dir, append(args, noRootCA)...).client()
			for group := range fruits {
				value, _, err := sameInGroup(t.Context(), c, group)
				if err != nil || value < acknowledged[group].Load() {
					t.Errorf("group %d is at %d, and %d was acknowledged; %v", group, value, acknowledged[group].Load(), err)
				}
			}
			t.Logf("%d bundles were acknowledged, %d kills", total.Load(), *crashes)
			if total.Load() < int64(*crashes) {
				t.Errorf("only %d bundles: this proves little", total.Load())
			}
		})
	}
}

func atLeast(a *atomic.Int64, n int64) {
	for was := a.Load(); was < n && !a.CompareAndSwap(was, n); was = a.Load() {
	}
}

const groupSize = 5

// sameInGroup returns what the objects of a group hold, 0 if there are none. They must hold the same.
func sameInGroup(ctx context.Context, c kubernetes.Interface, group int) (value int64, versions map[string]string, err error) {
	list, err := c.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{LabelSelector: fmt.Sprint("group=", group)})
	if err != nil || len(list.Items) == 0 {
		return 0, nil, err
	}
	versions = map[string]string{}
	for _, cm := range list.Items {
		versions[cm.Name] = cm.ResourceVersion
		if len(list.Items) != groupSize || cm.Data["n"] != list.Items[0].Data["n"] || cm.ResourceVersion != list.Items[0].ResourceVersion {
			return 0, nil, fmt.Errorf("group %d has %d objects: %v", group, len(list.Items), list.Items)
		}
	}
	value, err = strconv.ParseInt(list.Items[0].Data["n"], 10, 64)
	return value, versions, err
}

// increment adds one to a group by a bundle. ok says that it was acknowledged.
func increment(ctx context.Context, t *testing.T, c *kubernetes.Clientset, group int) (value int64, ok bool) {
	value, versions, err := sameInGroup(ctx, c, group)
	if err != nil {
		if strings.HasPrefix(err.Error(), "group") {
			t.Error(err)
		}
		return 0, false // the server is gone
	}
	value++
	var items []map[string]any
	for n := range groupSize {
		cm := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: map[string]string{"n": fmt.Sprint(value)}}
		cm.Name, cm.Namespace, cm.Labels = fmt.Sprintf("fruit-%d-%d", group, n), "default", map[string]string{"group": fmt.Sprint(group)}
		cm.ResourceVersion = versions[cm.Name]
		verb := "update"
		if cm.ResourceVersion == "" {
			verb = "create"
		}
		items = append(items, map[string]any{"verb": verb, "object": cm})
	}
	body, err := json.Marshal(map[string]any{"apiVersion": "bundle.kanzen.io/v1", "kind": "Bundle", "spec": map[string]any{"items": items}})
	if err != nil {
		t.Error(err)
	}
	err = c.CoreV1().RESTClient().Post().AbsPath("/apis/bundle.kanzen.io/v1/bundles").SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && apierrors.ReasonForError(err) != metav1.StatusReasonUnknown && ctx.Err() == nil {
		t.Error(err)
	}
	return value, err == nil
}
