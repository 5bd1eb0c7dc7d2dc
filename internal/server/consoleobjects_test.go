package server

import (
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/observe/console"
)

// TestConsoleObjects reads objects through the console: its viewer gets what the API would give, and a cookie is good for
// no more than that.
func TestConsoleObjects(t *testing.T) {
	alone(t, testing.Short())
	s := start(t)
	for _, name := range []string{"seen", "hidden"} {
		do(t, s, "POST", "/api/v1/namespaces/default/configmaps", "application/json", "", []byte(`{"metadata":{"name":"`+name+`"}}`), 201)
	}
	granted(t, s, "eve", "default", `{"verbs":["get","list"],"apiGroups":[""],"resources":["configmaps"],"resourceNames":["seen"]}`)
	for end := time.Now().Add(10 * time.Second); !strings.HasPrefix(answers(s, "eve", "GET", "/api/v1/namespaces/default/configmaps/seen"), "200") && time.Now().Before(end); {
		time.Sleep(time.Millisecond) // the authorizer follows the log
	}
	cookie, _ := signIn(t, s, eve)
	fetch := map[string]string{"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "empty"}
	const maps = "/console/data/objects?version=v1&resource=configmaps&namespace=default"
	for _, c := range []struct {
		name, path string
		header     map[string]string
		want       int
		has, lacks string
	}{
		{"one that may be read", maps + "&name=seen", fetch, 200, `"seen"`, "hidden"},
		{"one that may not", maps + "&name=hidden", fetch, 403, `"eve" cannot get`, ""},
		{"all", maps, fetch, 403, `"eve" cannot list`, ""},
		{"what may be seen", maps + "&visible=true&as=table", fetch, 200, `"seen"`, "hidden"},
		{"names of what may be seen", maps + "&visible=true&as=names", fetch, 200, "PartialObjectMetadataList", "hidden"},
		{"a watch", maps + "&watch=true", fetch, 403, `"eve" cannot watch`, ""},
		{"secrets", "/console/data/objects?version=v1&resource=secrets&namespace=default", fetch, 403, `"eve" cannot list`, ""},
		{"kinds", "/console/data/kinds?prefix=apis", fetch, 200, "APIGroupDiscoveryList", ""},
		{"a subresource", "/console/data/objects?version=v1&resource=pods&namespace=default&name=a/exec", fetch, 404, "", ""},
		{"as a page of its own", maps + "&name=seen", map[string]string{"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "document"}, 401, "", "seen\""},
		{"as a script", maps + "&name=seen", map[string]string{"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "script"}, 401, "", "seen\""},
		{"from elsewhere", maps + "&name=seen", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "empty"}, 401, "", "seen\""},
	} {
		answer := visit{method: "GET", path: c.path, cookie: cookie.Value, header: c.header}.at(s)
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != c.want || !strings.Contains(string(text), c.has) && !strings.Contains(string(text), strings.ReplaceAll(c.has, `"`, `\"`)) || c.lacks != "" && strings.Contains(string(text), c.lacks) {
			t.Errorf("%s: %d, want %d: %s", c.name, answer.StatusCode, c.want, text)
		}
	}
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		if got := (visit{method: method, path: maps + "&name=seen", cookie: cookie.Value}).at(s).StatusCode; got != 404 {
			t.Errorf("%s answers %d", method, got)
		}
	}
	figures(t, s)
}

// figures checks that what the console has asked for is known as that, and changes no figure.
func figures(t *testing.T, s *server) {
	t.Helper()
	const recorder = "/apis/flightrecorder.kanzen.io/v1alpha1/"
	// Nobody else asks for these. Of many reads in a second some are kept.
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		visit{method: "GET", path: "/console/data/objects?version=v1&resource=podtemplates", user: masters}.at(s)
		own := do(t, s, "GET", recorder+"requests?fieldSelector="+url.QueryEscape("console=true,resource=podtemplates"), "", "", nil, 200)
		if strings.Contains(string(own), `"number":`) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the recorder knows no requests of the console: %s", own)
		}
	}
	if others := do(t, s, "GET", recorder+"requests?fieldSelector="+url.QueryEscape("console=false,resource=podtemplates"), "", "", nil, 200); strings.Contains(string(others), `"number":`) {
		t.Errorf("requests of the console are taken for others: %s", others)
	}
	if all := do(t, s, "GET", recorder+"trafficstats?fieldSelector=by%3DResource", "", "", nil, 200); strings.Contains(string(all), "podtemplates") || !strings.Contains(string(all), "configmaps") {
		t.Errorf("the figures have requests of the console, or none: %s", all)
	}
}

// TestConsoleFiles checks that a stranger's connection is good for all files of the page, whatever their number becomes.
func TestConsoleFiles(t *testing.T) {
	alone(t, testing.Short())
	if n := len(console.Paths()); n > 26 {
		t.Errorf("the page has %d files, more than a connection serves to strangers", n)
	}
}
