package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/net/websocket"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// watched serves a watch in JSON, and returns its events as text. It runs the steps one after the other, each after an
// event, and ends after the last one.
func (x *kinds) watched(query, accept string, show func(event map[string]any) string, steps ...func()) []string {
	x.t.Helper()
	ctx, cancel := context.WithCancel(x.t.Context())
	defer cancel()
	steps = append(steps, cancel)
	var got []string
	var rest []byte
	w := &writer{header: http.Header{}, wrote: func(p []byte) error {
		rest = append(rest, p...)
		for {
			line, more, ok := bytes.Cut(rest, []byte("\n"))
			if !ok {
				return nil
			}
			rest = more
			var event map[string]any
			if err := json.Unmarshal(line, &event); err != nil {
				return err
			}
			got = append(got, at(event, "type")+" "+show(event))
			if len(steps) > 0 {
				steps[0]()
				steps = steps[1:]
			}
		}
	}}
	x.serve(w, x.request(ctx, "GET "+deploys+"?watch=1&"+query, "", "Accept: "+accept))
	return got
}

func nameAndReplicas(event map[string]any) string {
	return at(event, "object.metadata.name") + "=" + at(event, "object.spec.replicas")
}

func (x *kinds) want(got []string, want ...string) {
	x.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		x.t.Errorf("got %q\nwant %q", got, want)
	}
}

// TestWatchOfShare: a watch of the pods of a node looks at no others to begin.
func TestWatchOfShare(t *testing.T) {
	bound := pods()
	bound.Plural, bound.Prefix, bound.Trigger = "boundpods", "boundpods", "spec.nodeName"
	bound.Fields = Fields(func(p *corev1.Pod) fields.Set { return fields.Set{"spec.nodeName": p.Spec.NodeName} })
	x := newKinds(t, bound)
	const path = "/api/v1/namespaces/ns/boundpods"
	for n := range 9 {
		x.expect("POST "+path, fmt.Sprintf(`{"metadata":{"name":"p%d"},"spec":{"nodeName":"n%d"}}`, n, n%3), "201")
	}
	r := x.request(t.Context(), "GET "+path+"?watch=1", "")
	ep := x.eps[corev1.SchemeGroupVersion.WithResource("boundpods")]
	c := &call{write: write{Endpoint: ep, info: request.InfoFrom(r.Context())}, req: r}
	for selector, want := range map[string]int64{"": 9, "spec.nodeName=n1": 3, "spec.nodeName=none": 0, "spec.nodeName!=n1": 9} {
		snap, _, err := c.watchStart(t.Context(), &internalversion.ListOptions{ResourceVersion: "0", FieldSelector: fields.ParseSelectorOrDie(selector)})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := snap.Count(t.Context(), store.Range{}); err != nil || got != want {
			t.Errorf("%q looks at %d, not %d (%v)", selector, got, want, err)
		}
	}
}

func TestWatchForms(t *testing.T) {
	x := newKinds(t)
	first, last := x.three()
	scaleA := func() { x.expect("PATCH/merge "+deploys+"/a", `{"spec":{"replicas":8}}`, "200") }

	x.want(x.watched("", "application/json", nameAndReplicas, func() {}, func() {}, scaleA), "ADDED a=1", "ADDED b=2", "ADDED c=3", "MODIFIED a=8")
	x.want(x.watched("resourceVersion="+first, "application/json", nameAndReplicas, func() {}, func() {}), "ADDED b=2", "ADDED c=3", "MODIFIED a=8")
	x.want(x.watched("resourceVersion="+last+"&fieldSelector=metadata.name%3Da", "application/json", nameAndReplicas), "MODIFIED a=8")
	x.want(x.watched("fieldSelector=metadata.name%3Da", "application/json", nameAndReplicas), "ADDED a=8")

	// Objects that begin or cease to be selected are added or deleted.
	pause := func(paused bool) func() {
		return func() { x.expect("PATCH/merge "+deploys+"/a", fmt.Sprintf(`{"spec":{"paused":%v}}`, paused), "200") }
	}
	x.want(x.watched("fieldSelector=spec.paused%3Dtrue", "application/json", nameAndReplicas, pause(true), pause(false)), "ADDED b=2", "ADDED a=8", "DELETED a=8")

	// The watch sends what a list would contain, and then a bookmark.
	isList := "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	bookmarked := func(event map[string]any) string {
		return at(event, "object.kind") + at(event, "object.metadata.name") + at(event, "object.metadata.annotations")
	}
	const end = "map[k8s.io/initial-events-end:true]"
	x.want(x.watched(isList, "application/json", bookmarked, func() {}, func() {}, func() {}), "ADDED Deploymenta", "ADDED Deploymentb", "ADDED Deploymentc", "BOOKMARK Deployment"+end)
	x.want(x.watched(isList, asPartial, bookmarked, func() {}, func() {}, func() {}), "ADDED PartialObjectMetadataa", "ADDED PartialObjectMetadatab", "ADDED PartialObjectMetadatac", "BOOKMARK PartialObjectMetadata"+end)
	x.want(x.watched("sendInitialEvents=false&resourceVersionMatch=NotOlderThan&fieldSelector=metadata.name%3Db&resourceVersion="+first, "application/json", nameAndReplicas), "ADDED b=2")

	// Only the first table has the columns.
	rows := func(event map[string]any) string {
		return at(event, "object.columnDefinitions.#") + " " + at(event, "object.rows.0.cells")
	}
	x.want(x.watched("fieldSelector=metadata.name%3Da", asTable, rows, pause(true), pause(false)), "ADDED 2 a,8", "MODIFIED  a,8", "MODIFIED  a,8")
	x.want(x.watched(isList+"&fieldSelector=metadata.name%3Da", asTable, rows, func() {}), "ADDED 2 a,8", "BOOKMARK  <nil>,<nil>")
}

func TestWatchRefused(t *testing.T) {
	x := newKinds(t)
	for query, want := range map[string]string{
		"sendInitialEvents=true": "422 reason=Invalid details.kind=ListOptions",
		"resourceVersion=x":      "500",
		"labelSelector=(":        "400 reason=BadRequest",
		"resourceVersion=1000000&sendInitialEvents=true&resourceVersionMatch=Exact": "422 reason=Invalid",
	} {
		x.expect("GET "+deploys+"?watch=1&"+query, "", want)
	}
	if w := x.do("GET "+deploys+"?watch=1", "", "Accept: application/yaml"); w.Code != http.StatusNotAcceptable {
		t.Errorf("a watch in YAML: %d %s", w.Code, w.Body)
	}
	x.expect("GET "+deploys+"?watch=1&includeObject=Some", "", "400 reason=BadRequest", "Accept: "+asTable)
	x.expect("GET /api/v1/componentstatuses?watch=1", "", "405 reason=MethodNotAllowed")
}

// A watch without events gets bookmarks, if it asks for them.
func TestBookmarks(t *testing.T) {
	x := newKinds(t)
	x.expect("GET "+deploys, "", "200") // from here on the view has the events
	_, last := x.three()
	elsewhere := x.expect("POST "+podsAt, `{"metadata":{"name":"p"}}`, "201")
	if err := x.store.Fresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	defer func() { <-done }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer close(done)
		select {
		case <-x.clock.made:
			x.clock.Step(bookmarkEvery)
		case <-ctx.Done():
		}
	}()
	got := x.watched("allowWatchBookmarks=true&resourceVersion="+last, "application/json", func(event map[string]any) string {
		return at(event, "object.kind") + " " + at(event, "object.metadata.resourceVersion")
	})
	x.want(got, "BOOKMARK Deployment "+at(elsewhere, "metadata.resourceVersion"))
}

// A watch in protobuf consists of frames, each a length and a WatchEvent.
func TestWatchProtobuf(t *testing.T) {
	x := newKinds(t)
	x.three()
	for query, want := range map[string]string{
		"": "ADDED a=1, ADDED b=2, ADDED c=3",
		"sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true": "ADDED a=1, ADDED b=2, ADDED c=3, BOOKMARK =0",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		var rest []byte
		w := &writer{header: http.Header{}, wrote: func(p []byte) error {
			for rest = append(rest, p...); len(rest) >= 4; {
				size := int(binary.BigEndian.Uint32(rest))
				if len(rest) < 4+size {
					return nil
				}
				var e metav1.WatchEvent
				if err := e.Unmarshal(rest[4 : 4+size]); err != nil {
					t.Error(err)
				}
				rest = rest[4+size:]
				d := protobufOf(t, e.Object.Raw, &appsv1.Deployment{})
				replicas := int32(0)
				if d.Spec.Replicas != nil {
					replicas = *d.Spec.Replicas
				}
				if got = append(got, fmt.Sprintf("%s %s=%d", e.Type, d.Name, replicas)); len(got) == strings.Count(want, "=") {
					cancel()
				}
			}
			return nil
		}}
		x.serve(w, x.request(ctx, "GET "+deploys+"?watch=1&"+query, "", "Accept: "+protobufMedia))
		cancel()
		if all := strings.Join(got, ", "); all != want || w.header.Get("Content-Type") != protobufMedia+";stream=watch" {
			t.Errorf("%q: got %s as %s, want %s", query, all, w.header.Get("Content-Type"), want)
		}
	}
}

// Over a websocket each event is a message.
func TestWatchWebSocket(t *testing.T) {
	x := newKinds(t)
	x.three()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in := x.request(r.Context(), "GET "+r.URL.RequestURI(), "")
		for name := range r.Header {
			in.Header[name] = r.Header[name]
		}
		x.serve(w, in)
	}))
	defer srv.Close()
	ws, err := websocket.Dial("ws"+strings.TrimPrefix(srv.URL, "http")+deploys+"?watch=1", "", srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	for _, want := range []string{"ADDED a=1", "ADDED b=2", "ADDED c=3"} {
		var message []byte
		if err := websocket.Message.Receive(ws, &message); err != nil {
			t.Fatal(err)
		}
		var event map[string]any
		if err := json.Unmarshal(message, &event); err != nil {
			t.Fatal(err)
		}
		if got := at(event, "type") + " " + nameAndReplicas(event); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A watch of a revision that is compacted ends with an error, so that its client lists anew.
func TestWatchOfForgottenRevision(t *testing.T) {
	x := newKinds(t)
	first := x.expect("POST "+deploys, deployment("a", ""), "201")
	big := strings.Repeat("x", 100<<10)
	for n := range 100 { // more than the view's window holds
		x.expect("PATCH/merge "+deploys+"/a", fmt.Sprintf(`{"metadata":{"annotations":{"x":"%d%s"}}}`, n, big), "200")
	}
	if err := x.store.Fresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := x.db.Compact(t.Context(), x.store.All()[0].Revision()); err != nil {
		t.Fatal(err)
	}
	got := x.watched("resourceVersion="+at(first, "metadata.resourceVersion"), "application/json", func(event map[string]any) string {
		return at(event, "object.reason") + " " + at(event, "object.code")
	})
	x.want(got, "ERROR Expired 410")
}
