package extension_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/pkg/extension"
)

// echo answers with what it is asked for; it turns the connection into one that repeats lines, if that is asked for.
func echo(w http.ResponseWriter, r *http.Request, obj *Thing) error {
	switch {
	case obj.Spec.Color == "none":
		return apierrors.NewConflict(things.GroupResource(), obj.Name, errors.New("it has no color"))
	case r.Header.Get("Upgrade") == "":
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s %s %s %s %s", r.Method, r.URL.Path, obj.Spec.Color, extension.UserOf(r.Context()).GetName(), body)
		return err
	}
	conn, buffer, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer conn.Close()
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
	for {
		line, err := buffer.ReadString('\n')
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(conn, "%s is %s", strings.TrimSpace(line), obj.Spec.Color+"\n")
	}
}

// Subresources are answered by the author's funcs, for objects that exist and users who may.
func TestConnect(t *testing.T) {
	t.Parallel()
	c := start(t, extension.Kind[Thing]{Subresources: []extension.Subresource[Thing]{
		{Name: "echo", Doc: "Says what it is asked.", Verbs: []string{"get", "create"}, Connect: echo},
		{Name: "site", Behind: true, Connect: echo},
		{Name: "shell", MustCreate: true, Connect: echo},
	}}, nil)
	d := dynamic.NewForConfigOrDie(c).Resource(things).Namespace("default")
	for name, color := range map[string]string{"one": "red", "bad": "none"} {
		_, err := d.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing",
			"metadata": map[string]any{"name": name}, "spec": map[string]any{"color": color}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	const root = "/apis/example.com/v1/namespaces/default/things/"
	for _, test := range []struct {
		method, path string
		code         int
		want         string
	}{
		{"GET", "one/echo", 200, "GET " + root + "one/echo red kubernetes-admin "},
		{"POST", "one/echo", 200, "POST " + root + "one/echo red kubernetes-admin body"},
		{"PUT", "one/echo", 405, "MethodNotAllowed"},
		{"DELETE", "one/site", 405, "MethodNotAllowed"},
		{"GET", "two/echo", 404, `things.example.com \"two\" not found`},
		{"GET", "bad/echo", 409, "it has no color"},
		{"GET", "one/echo/more", 404, "could not find"},
		{"GET", "one/site/a/b", 200, "GET " + root + "one/site/a/b red"},
		{"GET", "one/other", 404, "not found"},
		{"GET", "one/shell", 200, "red kubernetes-admin"},
		{"GET?nobody", "one/echo", 403, `User \"nobody\" cannot get resource \"things/echo\"`},
	} {
		method, as, _ := strings.Cut(test.method, "?")
		body := io.Reader(nil)
		if test.method == "POST" {
			body = strings.NewReader("body")
		}
		req, err := http.NewRequestWithContext(t.Context(), method, "https://"+host(c)+root+test.path, body)
		if err != nil {
			t.Fatal(err)
		}
		if as != "" {
			req.Header.Set("Impersonate-User", as)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != test.code || !strings.Contains(string(got), test.want) {
			t.Errorf("%s %s: %d %s, want %d %s", test.method, test.path, resp.StatusCode, got, test.code, test.want)
		}
	}
	described(t, c)
	stream(t, c, root+"one/echo")
}

func host(c *rest.Config) string { return strings.TrimPrefix(c.Host, "https://") }

// described looks for the subresources in discovery and OpenAPI.
func described(t *testing.T, c *rest.Config) {
	t.Helper()
	client := discovery.NewDiscoveryClientForConfigOrDie(c)
	list, err := client.ServerResourcesForGroupVersion("example.com/v1")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, r := range list.APIResources {
		if _, sub, ok := strings.Cut(r.Name, "/"); ok {
			found = append(found, sub+strings.Join(r.Verbs, "+"))
		}
	}
	if got, want := strings.Join(found, " "), "statusget+patch+update echocreate+get siteget shellget"; got != want {
		t.Errorf("discovery has %q, want %q", got, want)
	}
	for path, operations := range map[string]string{"/openapi/v3/apis/example.com/v1": "content", "/openapi/v2": "schema"} {
		text, err := client.RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var doc struct {
			Paths map[string]map[string]json.RawMessage
		}
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		const root = "/apis/example.com/v1/namespaces/{namespace}/things/{name}/"
		post, behind := string(doc.Paths[root+"echo"]["post"]), doc.Paths[root+"site/{path}"]
		for _, part := range []string{"Says what it is asked.", `"x-kubernetes-action":"connect"`, "connectPostExampleComV1NamespacedThingEcho", operations} {
			if !strings.Contains(post, part) {
				t.Errorf("%s: %q is not in %s", path, part, post)
			}
		}
		if !strings.Contains(string(behind["parameters"]), "path to the resource") || behind["get"] == nil || behind["post"] != nil {
			t.Errorf("%s: %s", path, behind)
		}
	}
}

// stream changes the protocol of a connection, directly.
func stream(t *testing.T, c *rest.Config, path string) {
	t.Helper()
	config, err := rest.TLSConfigFor(c)
	if err != nil {
		t.Fatal(err)
	}
	config.NextProtos = []string{"http/1.1"}
	dialer := &tls.Dialer{Config: config, NetDialer: &net.Dialer{Timeout: time.Minute}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := dialer.DialContext(ctx, "tcp", host(c))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello\n", path)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if line, err := r.ReadString('\n'); resp.StatusCode != http.StatusSwitchingProtocols || line != "hello is red\n" {
		t.Errorf("%s: %q %v", resp.Status, line, err)
	}
}

// Kinds with subresources that cannot be served are refused.
func TestWrongSubresources(t *testing.T) {
	t.Parallel()
	for want, subresources := range map[string][]extension.Subresource[Thing]{
		"the name is not a label": {{Name: "A b", Connect: echo}},
		"the name is taken":       {{Name: "status", Connect: echo}},
		"it has no Connect":       {{Name: "echo"}},
		`the verb "watch"`:        {{Name: "echo", Verbs: []string{"watch"}, Connect: echo}},
	} {
		s := &extension.Server{Group: things.Group, Version: things.Version}
		extension.Add(s, extension.Kind[Thing]{Subresources: subresources})
		_, err := s.Start(t.Context(), extension.Options{Host: &rest.Config{Host: "https://127.0.0.1:1"}, Listen: "127.0.0.1:0", Storage: extension.Memory()})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
