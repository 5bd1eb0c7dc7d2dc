package test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kanzen-io/kanzen/internal/wire/pki/pkitest"
	"github.com/kanzen-io/kanzen/test/peer"
)

// TestAggregatorBesidePeer puts the same extension server behind kanzen and behind kube-apiserver.
func TestAggregatorBesidePeer(t *testing.T) {
	t.Parallel()
	authority := pkitest.Issue(t, pkitest.Authority("proxies"), nil)
	ca, _ := authority.Write(t, t.TempDir())
	cert, key := pkitest.Server(t, "front").Write(t, t.TempDir())
	theirs := aggregatorFacts(t, peer.Start(t, "--proxy-client-cert-file", cert, "--proxy-client-key-file", key, "--requestheader-client-ca-file", ca,
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-"))
	ours := aggregatorFacts(t, serve(t, t.TempDir(), "--controllers=").config())
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		if ours[name] != theirs[name] {
			t.Errorf("%s:\nkanzen         %s\nkube-apiserver %s", name, ours[name], theirs[name])
		}
	}
}

// TestAggregatorRouting registers an extension server by a service with a cluster IP, which leads nowhere without kube-proxy,
// and by endpoints: --enable-aggregator-routing leads to one of those that are ready.
func TestAggregatorRouting(t *testing.T) {
	t.Parallel()
	ip := outerAddress(t)
	mux := http.NewServeMux()
	mux.HandleFunc("/apis/good.test/v1", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"kind":"APIResourceList","groupVersion":"good.test/v1"}`)
	})
	mux.HandleFunc("/apis/good.test/v1/user", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Header.Get("X-Remote-User")) })
	port, ca := serviceServer(t, ip, "good.default.svc", mux)
	for _, routing := range []bool{true, false} {
		k := serve(t, filepath.Join(t.TempDir(), "data"), "--controllers=", "--enable-aggregator-routing="+strconv.FormatBool(routing))
		c := k.client()
		_, err := c.CoreV1().Services("default").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "good"},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromInt32(port)}}}}, metav1.CreateOptions{})
		must(t, err)
		name, no := "https", false
		_, err = c.DiscoveryV1().EndpointSlices("default").Create(t.Context(), &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "good-1",
			Labels: map[string]string{discoveryv1.LabelServiceName: "good"}}, AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{ip.String()}}, {Addresses: []string{"192.0.2.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &no}}}}, metav1.CreateOptions{})
		must(t, err)
		registerExtension(t, c.RESTClient(), "good.test", "good", 443, ca)
		if !routing {
			awaitAvailable(t, c.RESTClient(), "v1.good.test", "FailedDiscoveryCheck")
			continue
		}
		awaitAvailable(t, c.RESTClient(), "v1.good.test", "Passed")
		within(t, time.Minute, "requests are passed on", func(ctx context.Context) bool {
			body, err := c.RESTClient().Get().AbsPath("/apis/good.test/v1/user").DoRaw(ctx)
			return err == nil && string(body) == "kubernetes-admin"
		})
	}
}

// facts are what a server answers, by what was asked.
type facts map[string]string

// aggregatorFacts registers extension servers that are well and others that are not, and asks for them.
func aggregatorFacts(t *testing.T, c *rest.Config) facts {
	f := facts{}
	client := kubernetes.NewForConfigOrDie(c)
	api := client.RESTClient()
	ask := func(path string, edit ...func(*rest.Request)) string {
		r := api.Get().AbsPath(strings.Split(path, "?")[0])
		if _, q, ok := strings.Cut(path, "?"); ok {
			for _, p := range strings.Split(q, "&") {
				k, v, _ := strings.Cut(p, "=")
				r = r.Param(k, v)
			}
		}
		for _, e := range edit {
			e(r)
		}
		var code int
		body, err := r.Do(t.Context()).StatusCode(&code).Raw()
		_ = err // it is in the status
		return fmt.Sprintf("%d %s", code, normal(string(body)))
	}
	_, err := client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "empty"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}}}, metav1.CreateOptions{})
	must(t, err)
	_, err = client.DiscoveryV1().EndpointSlices("default").Create(t.Context(), &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "empty-1",
		Labels: map[string]string{discoveryv1.LabelServiceName: "empty"}}, AddressType: discoveryv1.AddressTypeIPv4}, metav1.CreateOptions{})
	must(t, err)
	registerExtension(t, api, "empty.test", "empty", 443, nil)
	f["the condition without endpoints"] = awaitAvailable(t, api, "v1.empty.test", "MissingEndpoints")
	f["the condition of a local one"] = awaitAvailable(t, api, "v1.apps", "Local")
	for _, path := range []string{"/apis/empty.test/v1", "/apis/empty.test/v1/things", "/apis/empty.test/v1/namespaces/default/things/x"} {
		f["without endpoints: "+path] = ask(path)[:3]
	}
	f["without endpoints: /apis/empty.test"] = ask("/apis/empty.test")
	f["without endpoints: /apis"] = fmt.Sprint(strings.Contains(ask("/apis"), `"empty.test/v1"`))
	f["without endpoints: aggregated"] = aggregatedGroup(t, api, "empty.test")

	e := newPlainExtension(t)
	_, err = client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "good"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}}, metav1.CreateOptions{})
	must(t, err)
	registerExtension(t, api, "good.test", "good", e.port, e.ca)
	f["the condition of a good one"] = awaitAvailable(t, api, "v1.good.test", "Passed")
	within(t, time.Minute, "requests are passed on", func(context.Context) bool { return strings.HasPrefix(ask("/apis/good.test/v1"), "200") })
	within(t, time.Minute, "discovery", func(context.Context) bool {
		f["aggregated"] = aggregatedGroup(t, api, "good.test")
		return strings.Contains(f["aggregated"], "things")
	})
	for _, path := range []string{"headers", "redirect", "redirect-here", "created", "error", "hangup"} {
		f[path] = ask("/apis/good.test/v1/" + path)
	}
	f["query"] = ask("/apis/good.test/v1/headers?a=b&watch=0", func(r *rest.Request) { r.SetHeader("X-Other", "1", "2").SetHeader("X-Remote-Group", "x") })
	f["upgrade"] = upgrade(t, c, "/apis/good.test/v1/upgrade")
	f["refused upgrade"] = upgrade(t, c, "/apis/good.test/v1/error")
	f["upgrade that is none"] = upgrade(t, c, "/apis/good.test/v1/created")
	e.server.CloseClientConnections()
	e.server.Close()
	// Whether a proxy learns of the end by its connection or by making another is a matter of time.
	f["gone"] = gonePattern.ReplaceAllString(ask("/apis/good.test/v1/headers"), "GONE")
	return f
}

var (
	portPattern   = regexp.MustCompile(`(localhost|127\.0\.0\.1|\[::1\]):\d+`)
	streamPattern = regexp.MustCompile(`stream ID \d+`)
	brokenPattern = regexp.MustCompile(`stream error: ID; INTERNAL_ERROR; received from peer|EOF`) // by HTTP/2 and by HTTP/1.1
	gonePattern   = regexp.MustCompile(`dial tcp HOST: connect: connection refused|unexpected BROKEN|BROKEN`)
	idPattern     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)
)

// normal is a body without what differs at each request. Where kube-apiserver writes a text, kanzen writes it into a Status.
func normal(s string) string {
	var st metav1.Status
	if json.Unmarshal([]byte(s), &st) == nil && st.Kind == "Status" {
		s = st.Message
	}
	s = brokenPattern.ReplaceAllString(streamPattern.ReplaceAllString(strings.TrimSpace(s), "ID"), "BROKEN")
	return idPattern.ReplaceAllString(portPattern.ReplaceAllString(s, "HOST"), "ID")
}

// plainExtension is an extension server of a few lines.
type plainExtension struct {
	server *httptest.Server
	port   int32
	ca     []byte
}

func newPlainExtension(t *testing.T) *plainExtension {
	pair := pkitest.Server(t, "good.default.svc")
	mux := http.NewServeMux()
	mux.HandleFunc("/apis/good.test/v1", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "good.test/v1", APIResources: []metav1.APIResource{
			{Name: "things", SingularName: "thing", Namespaced: true, Kind: "Thing", Verbs: metav1.Verbs{"get", "list"}, ShortNames: []string{"th"}},
			{Name: "things/status", Namespaced: true, Kind: "Thing", Verbs: metav1.Verbs{"get"}},
			{Name: "things/scale", Group: "autoscaling", Version: "v1", Namespaced: true, Kind: "Scale", Verbs: metav1.Verbs{"get"}},
		}})
	})
	mux.HandleFunc("/apis/good.test/v1/headers", func(w http.ResponseWriter, r *http.Request) {
		h := r.Header.Clone()
		for _, name := range []string{"User-Agent", "X-Remote-User", "X-Remote-Uid", "X-Remote-Group", "X-Remote-Extra-Authentication.kubernetes.io%2fcredential-Id", "Traceparent"} {
			h.Del(name)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"host": r.Host, "uri": r.RequestURI, "headers": h, "client": len(r.TLS.PeerCertificates)})
	})
	mux.HandleFunc("/apis/good.test/v1/redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://elsewhere.test/", http.StatusFound)
	})
	mux.HandleFunc("/apis/good.test/v1/redirect-here", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/apis/good.test/v1", http.StatusMovedPermanently)
	})
	mux.HandleFunc("/apis/good.test/v1/created", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusCreated) })
	mux.HandleFunc("/apis/good.test/v1/error", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusTeapot) })
	mux.HandleFunc("/apis/good.test/v1/hangup", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	mux.HandleFunc("/apis/good.test/v1/upgrade", func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
		line, _ := bufio.NewReader(conn).ReadString('\n')
		fmt.Fprintf(conn, "echo %s", line)
	})
	e := &plainExtension{server: httptest.NewUnstartedServer(mux), ca: pair.PEM()}
	e.server.EnableHTTP2 = true
	e.server.TLS = &tls.Config{Certificates: []tls.Certificate{pair.TLS()}, ClientAuth: tls.RequestClientCert}
	e.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	e.server.StartTLS()
	t.Cleanup(e.server.Close)
	e.port = int32(e.server.Listener.Addr().(*net.TCPAddr).Port)
	return e
}

// registerExtension makes an APIService of a service in the namespace default.
func registerExtension(t *testing.T, c rest.Interface, group, service string, port int32, ca []byte) {
	t.Helper()
	createAPIService(t, c, &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1." + group},
		Spec: apiregistrationv1.APIServiceSpec{Group: group, Version: "v1", GroupPriorityMinimum: 2000, VersionPriority: 15, CABundle: ca, InsecureSkipTLSVerify: ca == nil,
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: service, Port: &port}},
	})
}

// registerLocal registers an extension server on a port of this machine: as the service NAMESPACE/NAME, for groups and
// versions. It returns when all are available.
func registerLocal(t *testing.T, c kubernetes.Interface, inNamespace, name, port string, bundle []byte, groupVersions ...string) {
	t.Helper()
	ctx := t.Context()
	_, err := c.CoreV1().Namespaces().Create(ctx, namespace(inNamespace), metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		must(t, err)
	}
	_, err = c.CoreV1().Services(inNamespace).Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}}, metav1.CreateOptions{})
	must(t, err)
	number, err := strconv.ParseInt(port, 10, 32)
	must(t, err)
	at := int32(number)
	for _, gv := range groupVersions {
		group, version, _ := strings.Cut(gv, "/")
		createAPIService(t, c.CoreV1().RESTClient(), &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: version + "." + group},
			Spec: apiregistrationv1.APIServiceSpec{Group: group, Version: version, GroupPriorityMinimum: 2000, VersionPriority: 15, CABundle: bundle,
				Service: &apiregistrationv1.ServiceReference{Namespace: inNamespace, Name: name, Port: &at}}})
	}
	for _, gv := range groupVersions {
		group, version, _ := strings.Cut(gv, "/")
		awaitAvailable(t, c.CoreV1().RESTClient(), version+"."+group, "Passed")
	}
}

func createAPIService(t *testing.T, c rest.Interface, s *apiregistrationv1.APIService) {
	t.Helper()
	s.TypeMeta = metav1.TypeMeta{Kind: "APIService", APIVersion: "apiregistration.k8s.io/v1"}
	body, err := json.Marshal(s)
	must(t, err)
	must(t, c.Post().AbsPath("/apis/apiregistration.k8s.io/v1/apiservices").SetHeader("Content-Type", "application/json").Body(body).Do(t.Context()).Error())
}

// awaitAvailable waits until the condition of an APIService has a reason.
func awaitAvailable(t *testing.T, c rest.Interface, name, reason string) string {
	t.Helper()
	var found string
	defer func() {
		if t.Failed() {
			t.Logf("the last condition of %s: %s", name, found)
		}
	}()
	within(t, time.Minute, name+" has the condition "+reason, func(ctx context.Context) bool {
		body, err := c.Get().AbsPath("/apis/apiregistration.k8s.io/v1/apiservices/" + name).DoRaw(ctx)
		if err != nil {
			return false
		}
		var s apiregistrationv1.APIService
		must(t, json.Unmarshal(body, &s))
		for _, c := range s.Status.Conditions {
			found = fmt.Sprint(c.Type, c.Status, " ", c.Reason, " ", c.Message)
			return c.Reason == reason
		}
		return false
	})
	return found
}

// aggregatedGroup is a group in the aggregated discovery document.
func aggregatedGroup(t *testing.T, c rest.Interface, group string) string {
	t.Helper()
	body, err := c.Get().AbsPath("/apis").SetHeader("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList").DoRaw(t.Context())
	must(t, err)
	var list struct{ Items []json.RawMessage }
	must(t, json.Unmarshal(body, &list))
	for _, item := range list.Items {
		if strings.Contains(string(item), `"name":"`+group+`"`) {
			return string(item)
		}
	}
	return ""
}

// upgrade asks for a SPDY connection and says what came of it.
func upgrade(t *testing.T, c *rest.Config, path string) string {
	t.Helper()
	config, err := rest.TLSConfigFor(c)
	must(t, err)
	host := strings.TrimPrefix(c.Host, "https://")
	config.NextProtos = []string{"http/1.1"}
	conn, err := tls.Dial("tcp", host, config)
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	authorization := ""
	if c.BearerToken != "" {
		authorization = "Authorization: Bearer " + c.BearerToken + "\r\n"
	}
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\n%sConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n", path, host, authorization)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	must(t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		body, _ := io.ReadAll(resp.Body)
		return fmt.Sprintf("%d %s", resp.StatusCode, normal(string(body)))
	}
	fmt.Fprintf(conn, "hello\n")
	line, err := r.ReadString('\n')
	return fmt.Sprintf("%d %s %s %v", resp.StatusCode, resp.Header.Get("Upgrade"), strings.TrimSpace(line), err)
}
