package cbor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

const (
	jsonType  = "application/json"
	yamlType  = "application/yaml"
	cborType  = "application/cbor"
	cborApply = "application/apply-patch+cbor"
	yamlApply = "application/apply-patch+yaml"
)

// gate switches CBOR on.
const gate = "--feature-gates=CBORServingAndStorage=true"

// ask is a request. Its body is JSON, and is sent as its type says, unless it is raw.
type ask struct {
	method, path string
	accept, sent string
	body         string
	raw          []byte
}

func (a ask) String() string {
	return fmt.Sprintf("%s %s accept=%q sent=%q %s %x", a.method, a.path, a.accept, a.sent, a.body, a.raw)
}

// encoded is the body as it is sent.
func (a ask) encoded(t *testing.T) []byte {
	t.Helper()
	if a.raw != nil || a.body == "" {
		return a.raw
	}
	b, err := []byte(a.body), error(nil)
	switch {
	case strings.Contains(a.sent, "yaml"):
		b, err = yaml.JSONToYAML(b)
	case strings.Contains(a.sent, "cbor"):
		b, err = direct.Marshal(decoded(t, jsonType, b))
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// answer is what is compared.
type answer struct {
	code     int
	kind     string // the Content-Type
	warnings []string
	body     any
}

func (a answer) String() string {
	body, err := json.Marshal(a.body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %s %q\n%s", a.code, a.kind, a.warnings, body)
}

// server is one of the two that are asked.
type server struct {
	host   string
	client *http.Client
}

func newServer(t *testing.T, c *rest.Config) server {
	t.Helper()
	transport, err := rest.TransportFor(c)
	if err != nil {
		t.Fatal(err)
	}
	return server{c.Host, &http.Client{Transport: transport}}
}

// define makes the definition of the custom resource, and waits until it is served.
func (s server) define(t *testing.T) {
	t.Helper()
	s.do(t, ask{"POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "", jsonType, definition, nil})
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return s.do(t, ask{"GET", "/apis/example.com/v1/namespaces/default/foos", "", "", "", nil}).code == http.StatusOK, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// do sends a request, and returns the answer without what differs from server to server.
func (s server) do(t *testing.T, a ask) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), a.method, s.host+a.path, bytes.NewReader(a.encoded(t)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("User-Agent", "asker")
	if a.accept != "" {
		r.Header.Set("Accept", a.accept)
	}
	if a.sent != "" {
		r.Header.Set("Content-Type", a.sent)
	}
	resp, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got := answer{code: resp.StatusCode, kind: resp.Header.Get("Content-Type"), warnings: resp.Header.Values("Warning")}
	if strings.Contains(a.path, "watch=1") && got.code == http.StatusOK {
		got.body = same(initial(t, got.kind, resp.Body))
		return got
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got.kind == cborType && !bytes.HasPrefix(b, []byte{0xd9, 0xd9, 0xf7}) {
		t.Errorf("no tag of self-described CBOR: %x", b)
	}
	got.body = same(decoded(t, got.kind, b))
	return got
}

// initial reads the events of a watch up to the bookmark that ends the initial ones.
func initial(t *testing.T, kind string, stream io.ReadCloser) any {
	t.Helper()
	var next func() ([]byte, error)
	switch lines := bufio.NewReader(stream); kind {
	case jsonType:
		next = func() ([]byte, error) { return lines.ReadBytes('\n') }
	case cborType + "-seq":
		frames, room := cbor.NewFramer().NewFrameReader(stream), make([]byte, 1<<20)
		next = func() ([]byte, error) {
			n, err := frames.Read(room)
			return bytes.Clone(room[:n]), err
		}
	default:
		return "protobuf"
	}
	var events []any
	for {
		b, err := next()
		if err != nil {
			t.Fatal(err)
		}
		e := decoded(t, strings.TrimSuffix(kind, "-seq"), b)
		events = append(events, e)
		if e.(map[string]any)["type"] != "ADDED" {
			return events
		}
	}
}

// decoded decodes a body to what JSON can hold.
func decoded(t *testing.T, kind string, b []byte) (v any) {
	t.Helper()
	var err error
	switch kind, _, _ = strings.Cut(kind, ";"); {
	case kind == yamlType:
		err = yaml.Unmarshal(b, &v)
	case kind == cborType:
		err = direct.Unmarshal(b, &v)
	case kind == jsonType:
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		err = d.Decode(&v)
		v = numbers(v)
	default:
		return fmt.Sprintf("%d bytes", len(b)/1000) // protobuf
	}
	if err != nil {
		t.Errorf("%s: %v: %.100q", kind, err, b)
	}
	return v
}

// numbers makes numbers of JSON what they are in CBOR.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	}
	return v
}

// differing are the members that differ from server to server.
var differing = []string{"uid", "resourceVersion", "creationTimestamp", "time", "remainingItemCount", "storageVersionHash", "serverAddress",
	"startTime", "uptimeSeconds", "goVersion", "flags", "lastTransitionTime", "lastUpdateTime"}

// same leaves out of a decoded body what differs from server to server.
func same(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if v["kind"] == "SelfSubjectAccessReview" {
			delete(v["metadata"].(map[string]any), "managedFields")
		}
		if v["type"] == "BOOKMARK" { // there it has fields that are not omitted
			v["object"] = v["object"].(map[string]any)["metadata"]
		}
		if managers, ok := v["managedFields"].([]any); ok { // in the order of their times, which may be of one second or two
			slices.SortFunc(managers, func(a, b any) int { return strings.Compare(managerOf(a), managerOf(b)) })
		}
		for k := range v {
			if v[k] = same(v[k]); slices.Contains(differing, k) {
				v[k] = "differs"
			}
		}
	case []any:
		if len(v) == 0 {
			return nil // as null
		}
		for i := range v {
			v[i] = same(v[i])
		}
	case string:
		return uuids.ReplaceAllString(v, "UID")
	}
	return v
}

// managerOf names an entry of managedFields.
func managerOf(entry any) string {
	e, _ := entry.(map[string]any)
	return fmt.Sprint(e["manager"], " ", e["operation"], " ", e["subresource"], " ", e["apiVersion"])
}

var uuids = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
