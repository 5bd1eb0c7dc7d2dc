package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// manyPods stores more pods than the budget of encodings holds. Another server has written them; some are without what has a
// default.
func manyPods(t *testing.T, x *kinds, n int) {
	t.Helper()
	fields := &metav1.FieldsV1{}
	fields.SetRawString(`{"f:a": {"k:{\"b\":\"<\"}":{}}}`)
	for k := range n {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("p-%04d", k), Namespace: "ns", Labels: map[string]string{"k": "v"},
			Annotations:   map[string]string{"a": strings.Repeat("<\u2028 é \"", 200)},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", Operation: "Update", FieldsType: "FieldsV1", FieldsV1: fields}},
		}}
		if k%2 == 0 {
			p.Spec.RestartPolicy = corev1.RestartPolicyAlways
		}
		putRaw(t, x, p.Name, stored(t, p))
	}
	if err := x.store.Fresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func putRaw(t *testing.T, x *kinds, name string, value []byte) {
	t.Helper()
	if _, err := x.db.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: "/registry/pods/ns/" + name, Value: value}}}); err != nil {
		t.Fatal(err)
	}
}

// A list that is larger than what may be kept is the same, each time, as one that is kept, and pushes nothing out.
func TestListsThatPassThrough(t *testing.T) {
	if testing.Short() {
		t.Skip("no goroutines meet here, and the race detector makes it fifty times slower")
	}
	x := newKinds(t)
	manyPods(t, x, 1000)
	for _, accept := range []string{"application/json", asPartialList, "application/json;drop=metadata.managedFields"} {
		for _, query := range []string{"", "?pretty=true"} {
			used := x.store.Encodings.Used()
			var first []byte
			for round := range 3 {
				w := x.do("GET "+podsAt+query, "", "Accept: "+accept)
				if w.Code != http.StatusOK || !json.Valid(w.Body.Bytes()) {
					t.Fatalf("%s: %d %.300s", accept, w.Code, w.Body)
				}
				if first == nil {
					first = w.Body.Bytes()
				} else if !bytes.Equal(first, w.Body.Bytes()) {
					t.Errorf("%s%s: list %d differs", accept, query, round)
				}
				if length := w.Header().Get("Content-Length"); length != "" && length != fmt.Sprint(w.Body.Len()) {
					t.Errorf("%s%s: %s bytes announced, %d written", accept, query, length, w.Body.Len())
				}
			}
			if now := x.store.Encodings.Used(); now != used {
				t.Errorf("%s%s: %d bytes of encodings are kept, before there were %d", accept, query, now, used)
			}
			all, _, _ := strings.Cut(query, "=")
			kept := x.do("GET "+podsAt+"?labelSelector=k%3Dv"+strings.Replace(all, "?pretty", "&pretty=true", 1), "", "Accept: "+accept)
			if !bytes.Equal(first, kept.Body.Bytes()) {
				t.Errorf("%s%s: got %.600s\nwant %.600s", accept, query, first, kept.Body)
			}
		}
	}
}

// Pages of such a list have all of it, and push nothing out.
func TestPagesThatPassThrough(t *testing.T) {
	x := newKinds(t)
	manyPods(t, x, 1000)
	whole := x.do("GET "+podsAt, "").Body.String()
	used := x.store.Encodings.Used()
	var items []string
	for next := ""; ; {
		w := x.do("GET "+podsAt+"?limit=300&continue="+next, "")
		var l struct {
			Metadata metav1.ListMeta   `json:"metadata"`
			Items    []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		for _, i := range l.Items {
			items = append(items, string(i))
		}
		if next = l.Metadata.Continue; next == "" {
			break
		}
	}
	if len(items) != 1000 || !strings.Contains(whole, `"items":[`+strings.Join(items, ",")+"]") {
		t.Errorf("the %d items of all pages are not those of the list", len(items))
	}
	if now := x.store.Encodings.Used(); now != used {
		t.Errorf("%d bytes of encodings are kept, before there were %d", now, used)
	}
}

// One that has an object which cannot be read is an error, and not half a list: also when all others were read before.
func TestListThatPassesThroughDamage(t *testing.T) {
	x := newKinds(t)
	manyPods(t, x, 1000)
	if w := x.do("GET "+podsAt, ""); w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	putRaw(t, x, "p-0700", []byte("k8s\x00garbage"))
	w := x.do("GET "+podsAt, "")
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "p-0700") {
		t.Errorf("%d %.300s", w.Code, w.Body)
	}
}
