package engine

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// FuzzStoredValue serves whatever bytes are stored where an object should be: every verb answers, an error names the object, and
// what is beside it is served. What cannot be read can be deleted with the option for that, and nothing else can.
func FuzzStoredValue(f *testing.F) {
	pod := stored(f, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns", Labels: map[string]string{"k": "v"}}, Spec: corev1.PodSpec{NodeName: "n"}})
	for kind := range uint8(3) {
		for _, value := range [][]byte{pod, pod[:len(pod)/2], append([]byte("x"), pod...), nil, []byte("k8s\x00"), []byte("k8s\x00garbage"),
			[]byte("k8s\x00\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), []byte("k8s:enc:aesgcm:v1:k:0123456789"), []byte("k8s:enc:"),
			[]byte("{"), []byte("{}"), []byte("null"), []byte("[]"), []byte(`"a"`), []byte(`{"metadata":[]}`), []byte(`{"metadata":{"labels":{"a":1}}}`),
			[]byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","namespace":"ns"},"spec":{"replicas":"x"}}`),
			[]byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"b","namespace":"other","deletionTimestamp":"x"}}`),
			[]byte(`{"apiVersion":"v9","kind":"Gone","metadata":{"name":"a"}} `), []byte(strings.Repeat(`{"a":`, 20000))} {
			f.Add(kind, value)
		}
	}
	places := []struct{ prefix, path, beside, object string }{
		{"pods/ns/", podsAt, string(pod), `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`},
		{"deployments/ns/", deploys, "", deployment("a", "")},
		{"example.com/widgets/ns/", widgAt, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"beside","namespace":"ns"}}`,
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","resourceVersion":"1"}}`},
	}
	const option = `{"kind":"DeleteOptions","apiVersion":"v1","ignoreStoreReadErrorWithClusterBreakingPotential":true}`
	f.Fuzz(func(t *testing.T, kind uint8, value []byte) {
		x, at := newKinds(t), places[kind%3]
		for _, ep := range x.eps {
			ep.e.UnsafeDelete = true
		}
		put := func(name string, value []byte) {
			if _, err := x.db.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: "/registry/" + at.prefix + name, Value: value}}}); err != nil {
				t.Skip(err) // too large for the log
			}
		}
		put("a", value)
		if at.beside != "" {
			put("beside", []byte(at.beside))
		}
		readable := true
		for _, r := range []struct{ what, body, accept string }{
			{"GET " + at.path + "/a", "", "application/json"}, {"GET " + at.path + "/a", "", protobufMedia},
			{"GET " + at.path + "/a", "", "application/json;as=Table;v=v1;g=meta.k8s.io"}, {"GET " + at.path + "/a", "", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"},
			{"GET " + at.path, "", "application/json"}, {"GET " + at.path, "", protobufMedia}, {"GET " + at.path + "?limit=1", "", "application/json"},
			{"GET " + at.path + "?labelSelector=k%3Dv", "", "application/json"}, {"GET " + at.path + "?fieldSelector=metadata.name%3Da", "", "application/json"},
			{"GET " + at.path, "", "application/json;as=Table;v=v1;g=meta.k8s.io"},
			{"PUT " + at.path + "/a?dryRun=All", at.object, "application/json"}, {"PATCH/merge " + at.path + "/a?dryRun=All", `{"metadata":{"labels":{"a":"b"}}}`, "application/json"},
			{"POST " + at.path, strings.ReplaceAll(at.object, `,"resourceVersion":"1"`, ""), "application/json"}, {"DELETE " + at.path + "/a?dryRun=All", "", "application/json"},
		} {
			w := x.do(r.what, r.body, "Accept: "+r.accept)
			if w.Code < 200 || w.Code > 504 {
				t.Fatalf("%s: %d %s", r.what, w.Code, w.Body)
			}
			if w.Code != http.StatusInternalServerError || r.accept == protobufMedia {
				continue
			}
			readable = readable && !strings.HasPrefix(r.what, "GET "+at.path+"/a")
			var status metav1.Status
			if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil || status.Message == "" {
				t.Errorf("%s: %s", r.what, w.Body)
			}
			told := status.Message
			if status.Details != nil {
				for _, cause := range status.Details.Causes {
					told += cause.Message
				}
			}
			if strings.HasPrefix(r.what, "GET ") && !strings.Contains(told, "ns/a") {
				t.Errorf("%s: the error does not name the object: %s", r.what, w.Body)
			}
		}
		if at.beside != "" {
			if w := x.do("GET "+at.path+"/beside", ""); w.Code != http.StatusOK {
				t.Errorf("what is beside it: %d %s", w.Code, w.Body)
			}
		}
		w := x.do("DELETE "+at.path+"/a", option)
		switch {
		case w.Code == http.StatusOK:
			if again := x.do("GET "+at.path+"/a", ""); again.Code != http.StatusNotFound {
				t.Errorf("it was deleted, and is there: %d %s", again.Code, again.Body)
			}
		case w.Code != http.StatusConflict || !readable:
			t.Errorf("an unsafe deletion, readable %v: %d %s", readable, w.Code, w.Body)
		}
	})
}

// An empty value in etcd is an object in which nothing is set.
func TestEmptyValue(t *testing.T) {
	x := newKinds(t)
	if _, err := x.db.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: "/registry/deployments/ns/x"}}}); err != nil {
		t.Fatal(err)
	}
	x.expect("POST "+deploys, deployment("y", ""), "201")
	x.expectAll([]ask{
		{"GET " + deploys + "/x", "", "200 kind=Deployment metadata.name="},
		{"GET " + deploys, "", "200 kind=DeploymentList items.#=2 items.1.metadata.name=y"},
		{"GET " + deploys + "?labelSelector=a%3Db", "", "200 items.#=0"},
	}...)
	for _, path := range []string{deploys, deploys + "/x"} {
		if w := x.do("GET "+path, "", "Accept: application/vnd.kubernetes.protobuf"); w.Code != 200 {
			t.Errorf("%s in protobuf: %d %s", path, w.Code, w.Body)
		}
	}
	x.expectAll([]ask{
		{"DELETE " + deploys + "/x", "", "200 kind=Status status=Success"},
		{"GET " + deploys, "", "200 items.#=1"},
	}...)
}

// TestEveryByteFlipped flips each byte of a stored value in turn. What the whole of its envelope and its object say is not decodable is
// not decodable here: a value that is corrupt behind the object must not look whole.
func TestEveryByteFlipped(t *testing.T) {
	r := pods()
	value := stored(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns", Labels: map[string]string{"k": "v"}}, Spec: corev1.PodSpec{NodeName: "n"}})
	bad := 0
	for n := len(magic) + 2 + int(value[len(magic)+1]); n < len(value); n++ { // behind the type, which is known
		flipped := bytes.Clone(value)
		flipped[n] ^= 0xff
		var u runtime.Unknown
		want := u.Unmarshal(flipped[len(magic):])
		if want == nil {
			want = new(corev1.Pod).Unmarshal(u.Raw)
		}
		if want != nil {
			bad++
		}
		if _, err := r.Decode(t.Context(), flipped); (err == nil) != (want == nil) {
			t.Errorf("byte %d of %d: got %v, want %v", n, len(value), err, want)
		}
	}
	if bad < len(value)/2 {
		t.Errorf("only %d of %d are not decodable", bad, len(value))
	}
}
