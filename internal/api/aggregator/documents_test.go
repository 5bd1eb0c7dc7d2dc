package aggregator_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// The OpenAPI documents of an extension server are part of this server's, as long as it is registered: also while it does
// not answer. What it says of other groups is not.
func TestDocumentsAreMerged(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t)
	mux := things("ext.test", "v1")
	document := func(w http.ResponseWriter, head, path string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{%s,"info":{"title":"x","version":"1"},"paths":{%q:{"get":{"operationId":"readExtThing","responses":{"200":{"description":"OK"}}}}}}`, head, path)
	}
	mux.HandleFunc("/openapi/v3", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"paths":{"apis/ext.test/v1":{"serverRelativeURL":"/openapi/v3/apis/ext.test/v1?hash=A"},"apis/apps/v1":{"serverRelativeURL":"/openapi/v3/apis/apps/v1?hash=A"}}}`)
	})
	mux.HandleFunc("/openapi/v3/", func(w http.ResponseWriter, r *http.Request) {
		document(w, `"openapi":"3.0.0"`, strings.TrimPrefix(r.URL.Path, "/openapi/v3")+"/things")
	})
	mux.HandleFunc("/openapi/v2", func(w http.ResponseWriter, _ *http.Request) {
		document(w, `"swagger":"2.0"`, "/apis/ext.test/v1/things")
	})
	e := newExtension(t, s, "ext", mux)
	const v3 = "/openapi/v3/apis/ext.test/v1"
	served := func() (bool, bool) {
		code, body := get(t, s, v3)
		_, whole := get(t, s, "/openapi/v2")
		return code == 200 && strings.Contains(body, "readExtThing"), strings.Contains(whole, "/apis/ext.test/v1/things")
	}
	if three, two := served(); three || two {
		t.Errorf("before it is registered: v3 %v, v2 %v", three, two)
	}
	e.register(t, s, "ext.test", "v1")
	eventually(t, "both are merged", func() bool { three, two := served(); return three && two })
	if _, body := get(t, s, "/openapi/v3"); !strings.Contains(body, `"apis/ext.test/v1"`) || !strings.Contains(body, `"apis/apps/v1"`) {
		t.Error("the index is not whole")
	}
	if _, body := get(t, s, "/openapi/v3/apis/apps/v1"); strings.Contains(body, "readExtThing") || !strings.Contains(body, "Deployment") {
		t.Error("the document of another group is the extension server's")
	}
	crash := http.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	e.handler.Store(&crash)
	patch(t, s, apiServices+"/v1.ext.test", `{"spec":{"versionPriority":16}}`) // which has the loops run
	if three, two := served(); !three || !two {
		t.Errorf("while it does not answer: v3 %v, v2 %v", three, two)
	}
	remove(t, s, apiServices+"/v1.ext.test")
	eventually(t, "both are gone", func() bool { three, two := served(); return !three && !two })
}
