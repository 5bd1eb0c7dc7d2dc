package apiclient

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// to answers requests without a network.
type to http.HandlerFunc

func (h to) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	h(w, r)
	return w.Result(), nil
}

func TestDo(t *testing.T) {
	var seen string
	c := Client{Agent: "tester", RoundTripper: to(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen = fmt.Sprintf("%s %s %s %s %s", r.Method, r.URL, r.UserAgent(), r.Header.Get("Content-Type"), body)
		fmt.Fprint(w, `{"kind":"Pod"}`)
	})}
	var out struct{ Kind string }
	for _, each := range []struct {
		url, contentType string
		body             any
		want             string
	}{
		{"", "", nil, "PATCH https://server/a?b=c tester  "},
		{"https://host/planes/x", MergePatch, map[string]int{"n": 1}, `PATCH https://host/planes/x/a?b=c tester application/merge-patch+json {"n":1}`},
		{"", "text/plain", strings.NewReader("read"), "PATCH https://server/a?b=c tester text/plain read"},
		{"", ApplyPatch, []byte("n: 1"), "PATCH https://server/a?b=c tester application/apply-patch+yaml n: 1"},
	} {
		c.URL = each.url
		if err := c.Do(t.Context(), "PATCH", "/a?b=c", each.contentType, each.body, &out); err != nil || out.Kind != "Pod" || seen != each.want {
			t.Errorf("%v, %q, and the server saw %q, not %q", err, out.Kind, seen, each.want)
		}
	}
}

func TestRefusal(t *testing.T) {
	for body, want := range map[string]string{
		`{"kind":"Status","status":"Failure","reason":"Conflict","code":409,"message":"no"}`: "no",
		`{"kind":"Pod"}`:          `{"kind":"Pod"}`,
		"":                        "",
		strings.Repeat("x", 5000): strings.Repeat("x", maxMessage),
	} {
		c := Client{RoundTripper: to(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, body)
		})}
		err := c.Do(t.Context(), "GET", "/a", "", nil, nil)
		if err == nil || err.Error() != want || !apierrors.IsConflict(err) {
			t.Errorf("%.40q became %.40q", body, err)
		}
	}
}
