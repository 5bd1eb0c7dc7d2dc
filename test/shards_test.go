package test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/test/peer"
)

const (
	metaAsTable = "application/json;as=Table;v=v1;g=meta.k8s.io"
	metaPartial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
)

// shardedServer is kanzen or kube-apiserver.
type shardedServer struct {
	t      *testing.T
	http   *http.Client
	host   string
	client dynamic.Interface
}

func newShardedServer(t *testing.T, c *rest.Config) *shardedServer {
	t.Helper()
	h, err := rest.HTTPClientFor(c)
	must(t, err)
	d, err := dynamic.NewForConfig(c)
	must(t, err)
	return &shardedServer{t, h, c.Host, d}
}

// ask gets a path.
func (s *shardedServer) ask(ctx context.Context, path, accept string) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.host+path, nil)
	must(s.t, err)
	r.Header.Set("Accept", accept)
	resp, err := s.http.Do(r)
	must(s.t, err)
	return resp
}

// get is the code and the answer to a list, without what depends on when it was asked.
func (s *shardedServer) get(path, accept string) (answer, next string) {
	s.t.Helper()
	resp := s.ask(s.t.Context(), path, accept)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(s.t, err)
	var doc map[string]any
	must(s.t, json.Unmarshal(body, &doc))
	meta, _ := doc["metadata"].(map[string]any)
	if next, _ = meta["continue"].(string); next != "" {
		token, err := base64.RawURLEncoding.DecodeString(next)
		must(s.t, err)
		_, start, _ := strings.Cut(string(token), `"start":"`) // the rest is the revision
		meta["continue"] = strings.TrimPrefix(start, "/")
	}
	delete(meta, "resourceVersion")
	delete(doc, "columnDefinitions") // their descriptions are not about shards
	for _, list := range []string{"items", "rows"} {
		if doc[list] == nil {
			doc[list] = []any{} // an empty list is null in some of kube-apiserver's forms
		}
	}
	rows, _ := doc["rows"].([]any)
	for _, row := range rows {
		delete(row.(map[string]any), "cells") // they have ages
	}
	out, err := json.Marshal(doc)
	must(s.t, err)
	return fmt.Sprint(resp.StatusCode, " ", string(out)), next
}

// watched are the events of a watch up to one that has a text in it.
func (s *shardedServer) watched(path, last string) []string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	resp := s.ask(ctx, path, "application/json")
	defer resp.Body.Close()
	var got []string
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		var event any
		must(s.t, json.Unmarshal(lines.Bytes(), &event))
		out, err := json.Marshal(event)
		must(s.t, err)
		if got = append(got, string(out)); strings.Contains(string(out), last) {
			return got
		}
	}
	s.t.Fatalf("%s ended after %q", path, got)
	return nil
}

// shardSelectors are the selectors of n equal shards, and of two of them at once.
func shardSelectors(field string, n uint64) (out []string) {
	bound := func(i uint64) string {
		if i == n {
			return "0x10000000000000000"
		}
		return fmt.Sprintf("0x%016x", i*(1<<63/n*2))
	}
	for i := range n {
		out = append(out, fmt.Sprintf("shardRange(object.metadata.%s, '%s', '%s')", field, bound(i), bound(i+1)))
	}
	return append(out, out[0]+"||"+out[n-1])
}

// only is a selector of those that have one value of a field.
func only(field, value string) string {
	h := fnv.New64a()
	_, _ = io.WriteString(h, value)
	return fmt.Sprintf("shardRange(object.metadata.%s, '0x%016x', '0x%016x')", field, h.Sum64(), h.Sum64()+1)
}

// TestShardedListAndWatch asks kanzen and kube-apiserver, on one etcd, for shards: selectors, right and wrong, of all kinds of
// kinds, with other options, in several forms, with the feature gate and without.
func TestShardedListAndWatch(t *testing.T) {
	t.Parallel()
	for _, gate := range []bool{true, false} {
		t.Run(fmt.Sprint("gate ", gate), func(t *testing.T) {
			t.Parallel()
			etcd := peer.Etcd(t)
			args := []string{"--disable-admission-plugins=ServiceAccount", fmt.Sprintf("--feature-gates=ShardedListAndWatch=%v", gate)}
			theirs := newShardedServer(t, peer.StartOn(t, etcd, args...))
			k := serve(t, filepath.Join(t.TempDir(), "kanzen"), append(args, "--etcd-servers="+etcd, "--controllers=")...)
			own := newShardedServer(t, k.config())
			from := makeShardedObjects(t, k.client(), own, theirs)
			compareShardedLists(t, own, theirs)
			compareShardedWatches(t, own, theirs, from)
		})
	}
}

var shardedKinds = map[string]schema.GroupVersionResource{
	"ConfigMap": {Version: "v1", Resource: "configmaps"},
	"Event":     {Version: "v1", Resource: "events"}, // kube-apiserver does not cache them
	"Gadget":    {Group: "example.org", Version: "v1", Resource: "gadgets"},
}

// makeShardedObjects makes, changes and deletes objects in several namespaces. The last ones are in the namespace "last". It
// returns the revision before them.
func makeShardedObjects(t *testing.T, c *kubernetes.Clientset, own, theirs *shardedServer) (from string) {
	t.Helper()
	ctx := t.Context()
	_, err := own.client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).Create(ctx, gadgetDefinition(), metav1.CreateOptions{})
	must(t, err)
	for name, s := range map[string]*shardedServer{"own": own, "theirs": theirs} {
		within(t, time.Minute, name+" serves gadgets", func(ctx context.Context) bool {
			resp := s.ask(ctx, "/apis/example.org/v1/namespaces/default/gadgets", "application/json")
			defer resp.Body.Close()
			return resp.StatusCode == http.StatusOK
		})
	}
	make := func(kind, ns, name string) *unstructured.Unstructured {
		gvr := shardedKinds[kind]
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetGroupVersionKind(gvr.GroupVersion().WithKind(kind))
		o.SetName(name)
		o.SetLabels(map[string]string{"even": fmt.Sprint(len(name)%2 == 0)})
		if kind == "Event" {
			must(t, unstructured.SetNestedField(o.Object, ns, "involvedObject", "namespace"))
		}
		o, err := own.client.Resource(gvr).Namespace(ns).Create(ctx, o, metav1.CreateOptions{})
		must(t, err)
		return o
	}
	for _, ns := range []string{"sh-0", "sh-1", "sh-2", "last"} {
		made, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{})
		must(t, err)
		from = made.ResourceVersion
	}
	for kind, gvr := range shardedKinds {
		for n := range 12 {
			ns, name := fmt.Sprint("sh-", n%3), "o"+strings.Repeat("x", n)
			o := make(kind, ns, name)
			o.SetLabels(map[string]string{"even": "changed"})
			if n%3 == 1 {
				_, err := own.client.Resource(gvr).Namespace(ns).Update(ctx, o, metav1.UpdateOptions{})
				must(t, err)
			}
			if n%4 == 2 {
				must(t, own.client.Resource(gvr).Namespace(ns).Delete(ctx, name, metav1.DeleteOptions{}))
			}
		}
		make(kind, "last", "last")
	}
	return from
}

func shardedPath(gvr schema.GroupVersionResource, ns string) string {
	path := "/apis/" + gvr.Group + "/" + gvr.Version
	if gvr.Group == "" {
		path = "/api/" + gvr.Version
	}
	if ns != "" {
		path += "/namespaces/" + ns
	}
	return path + "/" + gvr.Resource + "?"
}

// wrongShards are selectors that are refused.
func wrongShards() []string {
	right := shardSelectors("uid", 2)[0]
	return []string{" ", "x", "1", "'0x'", "true", "f(1)", "shardRange", "shardRange(", "shardRange()", "shardRange(1, 2, 3)", "a.b.c", "!" + right, right + " && " + right, right + " || x", "[" + right + "]",
		strings.Replace(right, "uid", "name", 1), strings.Replace(right, "object.", "", 1), strings.Replace(right, "object.metadata.uid", "f(1)", 1), strings.Replace(right, "0x8", "0X8", 1), strings.Replace(right, "0x8", "8", 1),
		strings.Replace(right, "'0x8000000000000000'", "'0x8'", 1), strings.Replace(right, "'0x8000000000000000'", "'0x'", 1), strings.Replace(right, "'0x8000000000000000'", "5", 1), strings.Replace(right, "'0x8000000000000000'", "'0x0000000000000000'", 1),
		strings.Replace(right, "'0x8000000000000000'", "'0xF000000000000000'", 1), strings.Replace(right, "'0x8000000000000000'", "'0x20000000000000000'", 1), strings.Replace(right, "'0x8000000000000000'", "'0x8000000000000000000'", 1),
		right + " || " + shardSelectors("namespace", 2)[1], strings.Repeat("(", 300) + right + strings.Repeat(")", 300)}
}

func compareShardedLists(t *testing.T, own, theirs *shardedServer) {
	t.Helper()
	selectors := slices.Concat(shardSelectors("uid", 3), shardSelectors("namespace", 3), shardSelectors("uid", 1), wrongShards(),
		[]string{"", strings.ReplaceAll(shardSelectors("uid", 2)[0], " ", "\n"), "(" + strings.ReplaceAll(shardSelectors("uid", 2)[1], "'", `"`) + ")"})
	paths := []string{"/api/v1/namespaces?", "/api/v1/componentstatuses?x=y&", "/api/v1/configmaps?", "/api/v1/namespaces/sh-0/configmaps?", "/apis/example.org/v1/gadgets?",
		"/api/v1/namespaces/sh-1/events?", "/apis/events.k8s.io/v1/events?", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?", "/apis/apiregistration.k8s.io/v1/apiservices?"}
	options := []string{"", "limit=2", "resourceVersion=0", "resourceVersion=1&resourceVersionMatch=NotOlderThan", "resourceVersionMatch=NotOlderThan", "labelSelector=even%3Dtrue", "labelSelector=even&limit=1",
		"fieldSelector=metadata.name%3Doxx", "fieldSelector=metadata.namespace%3Dsh-1", "fieldSelector=a%3Db", "continue=x", "resourceVersion=x", "sendInitialEvents=true"}
	asked := 0
	for _, path := range paths {
		for n, selector := range selectors {
			for m, option := range options {
				if (n+m)%len(paths) > 0 && option != "" && path != "/api/v1/configmaps?" { // some of the combinations elsewhere
					continue
				}
				accept := []string{"application/json", metaPartial, metaAsTable}[(n+m)%3]
				if strings.Contains(path, "componentstatuses") && (accept == metaAsTable || option != "") {
					continue // they are asked for anew each time
				}
				query := path + option + "&shardSelector=" + url.QueryEscape(selector)
				for page := query; page != ""; {
					a, next := own.get(page, accept)
					b, theirNext := theirs.get(page, accept)
					if asked++; a != b && !strings.Contains(path, "componentstatuses") {
						t.Errorf("%s (%s)\nkanzen:         %s\nkube-apiserver: %s", page, accept, a, b)
					}
					if page = ""; next != "" && theirNext != "" && strings.Contains(option, "limit=2") {
						page = query + "&continue=" + theirNext // the revision of both
					}
				}
			}
		}
	}
	t.Logf("%d questions", asked)
}

func compareShardedWatches(t *testing.T, own, theirs *shardedServer, from string) {
	t.Helper()
	for _, kind := range slices.Sorted(maps.Keys(shardedKinds)) {
		gvr := shardedKinds[kind]
		last, err := own.client.Resource(gvr).Namespace("last").Get(t.Context(), "last", metav1.GetOptions{})
		must(t, err)
		for _, field := range []string{"uid", "namespace"} {
			end := only(field, map[string]string{"uid": string(last.GetUID()), "namespace": "last"}[field])
			for _, selector := range shardSelectors(field, 3) {
				selector = "&shardSelector=" + url.QueryEscape(selector+" || "+end)
				for _, option := range []string{"", "&labelSelector=even%21%3Dchanged", "&labelSelector=even+in+(true,changed)"} {
					path := shardedPath(gvr, "") + "watch=1&resourceVersion=" + from + option + selector
					a, b := own.watched(path, `"name":"last"`), theirs.watched(path, `"name":"last"`)
					if !slices.Equal(a, b) {
						t.Errorf("%s\nkanzen:         %s\nkube-apiserver: %s", path, strings.Join(a, "\n"), strings.Join(b, "\n"))
					}
				}
				path := shardedPath(gvr, "") + "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true" + selector
				a, b := own.watched(path, metav1.InitialEventsAnnotationKey), theirs.watched(path, metav1.InitialEventsAnnotationKey)
				a, b = slices.Sorted(slices.Values(a[:len(a)-1])), slices.Sorted(slices.Values(b[:len(b)-1]))
				if !slices.Equal(a, b) {
					t.Errorf("%s\nkanzen:         %s\nkube-apiserver: %s", path, strings.Join(a, "\n"), strings.Join(b, "\n"))
				}
			}
		}
	}
}
