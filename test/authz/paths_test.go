package authz

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
	"github.com/kanzen-io/kanzen/test/peer"
)

// recordedPaths has what kube-apiserver answered to each request.
const recordedPaths = "testdata/paths.json"

// trick is a request whose path is to be understood the same by who authorizes
// it and by who serves it, as it goes over the wire.
type trick struct {
	Token, Method, Path string
	Header              map[string]string `json:",omitempty"`
	Code                int
	Message             string `json:",omitempty"`
}

// tricks are as people who may read pods of the namespace ns0 only, as nobody,
// and as the administrator, who sees how paths are served.
func tricks() []trick {
	var out []trick
	for _, path := range []string{
		"/api/v1/namespaces/ns0/pods", "/api/v1/namespaces/ns1/pods", "/api/v1/namespaces/ns0/../ns1/pods", "/api/v1/namespaces/ns0/..%2fns1/pods",
		"/api/v1/namespaces/ns0%2f..%2fns1/pods", "/api/v1/namespaces/ns0/pods/../../ns1/pods", "/api/v1//namespaces/ns1/pods", "//api/v1/namespaces/ns1/pods",
		"/api//v1/namespaces/ns1/secrets", "/api/v1/namespaces//ns1/secrets", "/api/v1/namespaces/ns1//secrets", "/api/v1/namespaces/ns1/secrets/", "/api/v1/namespaces/ns1/./secrets",
		"/api/v1/namespaces/ns0/pods;/../secrets", "/api/v1/namespaces/ns0/pods;a=b", "/api/v1/namespaces/ns0;x/pods", "/api/v1/namespaces/ns0/pods%3fx", "/api/v1/namespaces/ns0/pods%00", "/api/v1/namespaces/ns0/pods%0a",
		"/api/v1/namespaces/ns0/pods/..", "/api/v1/namespaces/ns0/pods/%2e%2e/secrets", "/api/v1/namespaces/ns0/pods%2f..%2fsecrets", "/api/v1/namespaces/ns0/pods/a%2flog", "/api/v1/namespaces/ns0/pods/a/log/../../../../ns1/secrets",
		"/api/v1/namespaces/ns0/pods/%2e", "/api/v1/namespaces/%2e%2e/secrets", "/API/v1/namespaces/ns1/secrets", "/api/V1/namespaces/ns1/secrets", "/api/v1/Namespaces/ns1/secrets", "/api/v1/namespaces/ns1/SECRETS",
		"/api/v1/watch/namespaces/ns1/secrets", "/api/v1/watch/", "/api/v1/watch", "/api/v1/proxy/namespaces/ns1/secrets", "/api/v1/proxy", "/apis/v1/namespaces/ns1/secrets", "/apis//v1/secrets", "/api/v1/secrets", "/api/v1/secrets?fieldSelector=metadata.namespace%3dns0",
		"/api/v1/namespaces/ns1/secrets?fieldSelector=metadata.name%3da", "/api/v1/namespaces/ns1/secrets?watch=1&watch=false&timeoutSeconds=0", "/api/v1/namespaces/ns0/pods?resourceVersion=0", "/api/v1/namespaces/ns0", "/api/v1/namespaces/ns0/", "/api/v1/namespaces/ns0/finalize", "/api/v1/namespaces/ns0/status",
		"/healthz", "/healthz/", "//healthz", "/healthz/../api/v1/secrets", "/healthz/..%2f..%2fapi%2fv1%2fsecrets", "/healthz%2f..%2fapi/v1/secrets", "/livez/ping", "/readyz?verbose", "/version", "/version/", "/version%2f", "/version/../metrics", "/metrics", "/metrics/", "/%6detrics", "/openapi/v2", "/openapi//v2", "/api", "/api/", "/apis", "/apis/", "/apis/apps", "/apis/apps/", "/api/v1", "/api/v1/",
		"/", "", "/.", "/..", "/%2e%2e/", "/nosuch", "/apis/nosuch.example.com/v1/x", "/debug/pprof/", "/logs/", "/.well-known/openid-configuration", "/.well-known/../metrics", "/openid/v1/jwks",
		"/api/v1/namespaces/ns0/pods/a/log", "/api/v1/namespaces/ns0/pods/a/exec", "/api/v1/nodes/n/proxy/logs", "/api/v1/namespaces/ns0/services/s/proxy/../../../../ns1/secrets", "http://other/api/v1/namespaces/ns1/secrets", "/api/v1/namespaces/ns0/pods#/x",
	} {
		for _, token := range []string{"ask0", "", "admin"} {
			if token == "admin" && (strings.Contains(path, "watch") || strings.Contains(path, "log") || strings.Contains(path, "exec") || strings.Contains(path, "proxy") || strings.HasPrefix(path, "/metrics") || strings.Contains(path, "etrics") || strings.Contains(path, "pprof")) {
				continue
			}
			out = append(out, trick{Token: token, Method: "GET", Path: path})
		}
		if len(out)%5 == 0 {
			out = append(out, trick{Token: "ask0", Method: "DELETE", Path: path}, trick{Token: "ask0", Method: "FOO", Path: path}, trick{Token: "ask0", Method: "HEAD", Path: path})
		}
	}
	// Who claims to be somebody without being a front proxy is nobody.
	for _, name := range []string{"X-Remote-User", "x-remote-user", "X-REMOTE-USER", "X_Remote_User", "X-Remote_User", "X-Remote-User ", "X-Remote-Group", "X-Remote-Extra-Scopes", "X-Remote-Uid", "Impersonate-User", "impersonate-user", "Impersonate_User", "IMPERSONATE-GROUP"} {
		for _, token := range []string{"", "ask0"} {
			out = append(out, trick{Token: token, Method: "GET", Path: "/api/v1/namespaces/ns1/secrets", Header: map[string]string{name: "system:masters"}})
		}
	}
	for _, auth := range []string{"Bearer", "Bearer ", "bearer ask0", "BEARER ask0", "Bearer ask0 x", "Bearer  ask0", "Basic YXNrMDphc2sw", "Bearer " + strings.Repeat("a", 100_000), "Bearer a.b.c", "Bearer \x80"} {
		out = append(out, trick{Method: "GET", Path: "/api/v1/namespaces/ns0/pods", Header: map[string]string{"Authorization": auth}})
	}
	return out
}

// send sends a request as it is, byte by byte.
func send(c *rest.Config, tokens map[string]string, k *trick) (code int, message string, err error) {
	u, err := url.Parse(c.Host)
	if err != nil {
		return 0, "", err
	}
	conn, err := tls.Dial("tcp", u.Host, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err != nil {
		return 0, "", err
	}
	defer conn.Close()
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: server\r\nConnection: close\r\nAccept: application/json\r\n", k.Method, k.Path)
	if k.Token != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", tokens[k.Token])
	}
	for name, value := range k.Header {
		fmt.Fprintf(&b, "%s: %s\r\n", name, value)
	}
	if _, err := conn.Write([]byte(b.String() + "\r\n")); err != nil {
		return 0, "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: k.Method})
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	var status struct {
		Kind, Message string
	}
	if resp.StatusCode == http.StatusForbidden && json.NewDecoder(resp.Body).Decode(&status) == nil && status.Kind == "Status" {
		message = status.Message
	}
	return resp.StatusCode, message, nil
}

// prepared makes what the tricks are about.
func prepared(t *testing.T, c *rest.Config) {
	t.Helper()
	a := newAsker(c, nil)
	for _, o := range []object{
		{"/api/v1/namespaces", map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "ns0"}}},
		{"/api/v1/namespaces", map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "ns1"}}},
		{rbacPath + "namespaces/ns0/roles", map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": map[string]any{"name": "r"},
			"rules": []any{map[string]any{"verbs": []string{"get", "list", "delete"}, "apiGroups": []string{""}, "resources": []string{"pods"}}}}},
		{rbacPath + "namespaces/ns0/rolebindings", map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": map[string]any{"name": "r"},
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
			"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ask0"}}}},
	} {
		a.make(t, &o)
	}
	// Until the binding has been seen.
	within(t, func() bool {
		as := rest.CopyConfig(c)
		as.Impersonate.UserName = "ask0"
		_, err := kubernetes.NewForConfigOrDie(as).CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/ns0/pods").DoRaw(t.Context())
		return err == nil
	})
}

// TestPathsAgainstPeer asks kube-apiserver and kanzen, and writes down what TestPathsRecorded asks.
func TestPathsAgainstPeer(t *testing.T) {
	if !*peer.Recording {
		t.Skip("TestPathsRecorded asks the same; run with -record")
	}
	c := peer.Start(t)
	prepared(t, c)
	tokens := map[string]string{"admin": c.BearerToken, "ask0": "ask0"}
	var out []trick
	for _, k := range tricks() {
		var err error
		if k.Code, k.Message, err = send(c, tokens, &k); err != nil {
			t.Fatalf("%+v: %v", k, err)
		}
		out = append(out, k)
	}
	data, _ := json.MarshalIndent(out, "", " ")
	if err := os.WriteFile(recordedPaths, append(data, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	heldPaths(t, out)
}

func TestPathsRecorded(t *testing.T) {
	data, err := os.ReadFile(recordedPaths)
	if err != nil {
		t.Fatal(err)
	}
	var all []trick
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	heldPaths(t, all)
}

func heldPaths(t *testing.T, all []trick) {
	t.Helper()
	file := t.TempDir() + "/tokens"
	if err := os.WriteFile(file, []byte("root,admin,admin,system:masters\nask0,ask0,ask0,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := kanzentest.Start(t, kanzentest.Listen(), kanzentest.Flags("--token-auth-file="+file, "--anonymous-auth"))
	c := s.SocketConfig()
	prepared(t, s.Config())
	same := 0
	for _, k := range all {
		code, message, err := send(c, map[string]string{"admin": "root", "ask0": "ask0"}, &k)
		if err != nil || code != k.Code || message != k.Message {
			if len(k.Header) > 0 {
				k.Path += fmt.Sprintf(" %.60v", k.Header)
			}
			t.Errorf("%s %s as %q: %d %q %v, want %d %q", k.Method, k.Path, k.Token, code, message, err, k.Code, k.Message)
			continue
		}
		same++
	}
	t.Logf("%d of %d requests are answered alike", same, len(all))
}
