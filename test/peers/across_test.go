package peers

import (
	"bufio"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/internal/wire/pki"
	"github.com/kanzen-io/kanzen/internal/wire/pki/pkitest"
)

// TestAcross has two servers, one of which does not serve jobs and certificate requests, and the other no autoscalers of version 2.
// Each serves everything to its clients, as two kube-apiservers do.
func TestAcross(t *testing.T) {
	want := ofPeers(t, "across", func() facts { return across(t, kube, kube) })
	for _, pair := range [][2]string{{kanzen, kanzen}, {kanzen, kube}, {kube, kanzen}} {
		t.Run(pair[0]+" passes on to "+pair[1], func(t *testing.T) { compare(t, across(t, pair[0], pair[1]), want) })
	}
}

func across(t *testing.T, first, second string) facts {
	t.Helper()
	c, f := newCluster(t), facts{}
	less := c.start(t, first, "a-less", "--runtime-config=batch/v1=false,certificates.k8s.io/v1/certificatesigningrequests=false")
	more := c.start(t, second, "b-more", "--runtime-config=autoscaling/v2=false")
	within(t, "jobs are passed on", func() bool { return ask(t, less, "GET", jobs, "").code == http.StatusOK })
	within(t, "autoscalers are passed on", func() bool {
		return ask(t, more, "GET", "/apis/autoscaling/v2/horizontalpodautoscalers", "").code == http.StatusOK
	})
	allow(t, more)

	f.add("not allowed", ask(t, as(less, "ask0"), "GET", jobs, ""))
	f.add("allowed", ask(t, as(less, "ask1"), "GET", jobs, ""))
	f.add("nobody", ask(t, as(less, "wrong"), "GET", jobs, ""))
	f.add("create", ask(t, as(less, "ask1"), "POST", jobs, job, "User-Agent", "test"))
	f.add("create again", ask(t, as(less, "ask1"), "POST", jobs, job))
	f.add("impersonated", ask(t, less, "GET", jobs+"/j", "", "Impersonate-User", "ask0"))
	f.add("patch", ask(t, as(less, "ask1"), "PATCH", jobs+"/j?fieldManager=m", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", "application/merge-patch+json"))
	f.add("table", ask(t, as(less, "ask1"), "GET", jobs, "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").code)
	f.add("subresource", ask(t, as(less, "ask1"), "GET", jobs+"/j/status", ""))
	f.add("no such subresource", ask(t, less, "GET", jobs+"/j/other", ""))
	f.add("watch", watched(t, as(less, "ask1"), jobs+"?watch=1&resourceVersion=0"))
	upgraded(t, first, as(less, "ask1"), jobs+"?watch=1&resourceVersion=0")
	f.add("certificate request's user", requester(t, less))
	f.add("a header says that it was passed on", ask(t, less, "GET", jobs, "", "X-Kubernetes-Peer-Proxied", "true"))
	f.add("a header says something else", ask(t, less, "GET", jobs, "", "X-Kubernetes-Peer-Proxied", "yes").code)
	f.add("headers of a front proxy", ask(t, as(less, "ask0"), "GET", jobs, "", "X-Remote-User", "admin", "X-Remote-Group", "system:masters"))
	f.add("what nobody serves", ask(t, less, "GET", "/apis/batch/v1/namespaces/default/others", ""))
	f.add("a path", ask(t, less, "GET", "/apis/batch/v1/namespaces/default/../default/jobs", "").code)
	f.add("delete", ask(t, as(less, "ask1"), "DELETE", jobs+"/j?propagationPolicy=Background", "").code)
	f.add("gone", ask(t, as(less, "ask1"), "GET", jobs+"/j", ""))

	within(t, "both have the same documents", func() bool {
		return groups(t, less, "/apis", aggregatedType) == groups(t, more, "/apis", aggregatedType)
	})
	f.add("merged documents", groups(t, less, "/apis", aggregatedType))
	f.add("merged documents of a table of media types", groups(t, less, "/apis", aggregatedType+","+"application/json"))
	f.add("document of one", groups(t, less, "/apis", aggregatedType+";profile=nopeer"))
	f.add("document of the other", groups(t, more, "/apis", aggregatedType+";profile=nopeer"))
	f.add("core", groups(t, less, "/api", aggregatedType))
	f.add("document of a version", ask(t, less, "GET", "/apis/batch/v1", ""))
	f.add("checks", checks(t, less))
	f.add("metrics", metrics(t, less))
	return f
}

// allow lets ask1 do everything with jobs, and certificate requests.
func allow(t *testing.T, c *rest.Config) {
	t.Helper()
	const api = "/apis/rbac.authorization.k8s.io/v1"
	for _, made := range []answer{
		ask(t, c, "POST", api+"/clusterroles", `{"metadata":{"name":"across"},"rules":[{"apiGroups":["batch","certificates.k8s.io"],"resources":["*"],"verbs":["*"]}]}`),
		ask(t, c, "POST", api+"/clusterrolebindings", `{"metadata":{"name":"across"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"across"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"ask1"}]}`),
	} {
		if made.code != http.StatusCreated {
			t.Fatal(made)
		}
	}
}

// watched is the first event of a watch.
func watched(t *testing.T, c *rest.Config, path string) string {
	t.Helper()
	h, err := rest.HTTPClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", c.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := h.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	return fmt.Sprintf("%d %s %v %v", resp.StatusCode, normal(line), err, resp.ContentLength)
}

// upgraded watches by websocket through a server. kube-apiserver passes an upgrade on without its user, so it is refused.
func upgraded(t *testing.T, by string, c *rest.Config, path string) {
	t.Helper()
	config, err := rest.TLSConfigFor(c)
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{"Authorization": {"Bearer " + c.BearerToken}, "Origin": {c.Host}}
	conn, _, err := (&websocket.Dialer{TLSClientConfig: config}).DialContext(t.Context(), "wss"+strings.TrimPrefix(c.Host, "https")+path, header)
	if by == kube {
		if err == nil {
			t.Error("kube-apiserver passes upgrades on with their user now; compare them")
		}
		return
	}
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	if _, event, err := conn.ReadMessage(); err != nil || !strings.HasPrefix(string(event), `{"type":"ADDED","object":{"kind":"Job",`) {
		t.Errorf("%s %v", event, err)
	}
}

// requester is the user that a certificate request has, and its groups.
func requester(t *testing.T, c *rest.Config) string {
	t.Helper()
	_, pemKey := pkitest.Server(t, "x").Write(t, t.TempDir())
	data, err := os.ReadFile(pemKey)
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.ParsePrivateKey(data)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "x"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	request, err := json.Marshal(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	if err != nil {
		t.Fatal(err)
	}
	made := ask(t, c, "POST", csrs, fmt.Sprintf(`{"metadata":{"name":"r"},"spec":{"request":%s,"signerName":"example.com/s","usages":["client auth"]}}`, request),
		"Impersonate-User", "ask1", "Impersonate-Uid", "u-1", "Impersonate-Group", "g:1", "Impersonate-Group", "system:authenticated", "Impersonate-Extra-Example.com%2fKey", "V 1")
	var object struct {
		Spec struct {
			Username, UID string
			Groups        []string
			Extra         map[string][]string
		}
	}
	if err := json.Unmarshal([]byte(made.body), &object); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(made.code, object)
}

// checks are the names of the health checks of peers.
func checks(t *testing.T, c *rest.Config) string {
	t.Helper()
	var out []string
	for line := range strings.Lines(ask(t, c, "GET", "/readyz?verbose", "").body) {
		if strings.Contains(line, "peer") || strings.Contains(line, "proxy-handler") || strings.Contains(line, "local-discovery") {
			out = append(out, line)
		}
	}
	slices.Sort(out)
	return strings.Join(out, "")
}

// metrics are the names and labels of the metrics about peers.
func metrics(t *testing.T, c *rest.Config) string {
	t.Helper()
	var out []string
	for line := range strings.Lines(ask(t, c, "GET", "/metrics", "").body) {
		if strings.HasPrefix(line, "apiserver_rerouted_") || strings.HasPrefix(line, "apiserver_peer_proxy") || strings.HasPrefix(line, "aggregator_discovery_peer") || strings.HasPrefix(line, "aggregator_discovery_nopeer") {
			series, _, _ := strings.Cut(line, " ")
			if !strings.Contains(series, `code="0"`) && !strings.Contains(series, `code="101"`) { // upgrades
				out = append(out, series)
			}
		}
	}
	return strings.Join(out, "\n")
}
