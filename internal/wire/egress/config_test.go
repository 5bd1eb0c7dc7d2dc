package egress

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

// load reads a configuration with some selections.
func load(t *testing.T, text string) (*Selector, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "egress.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(path, prometheus.NewRegistry(), clock.RealClock{})
}

const header = "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\n"

// Errors have kube-apiserver's wording.
func TestRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pem")
	if err := os.WriteFile(file, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	const invalid = "failed to validate egress selector configuration: "
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "failed to read egress selector config: Object 'Kind' is missing in ''"},
		{"another kind", "apiVersion: apiserver.k8s.io/v1beta1\nkind: TracingConfiguration\n", "failed to read egress selector config: "},
		{"unknown field", header + "foo: 1\n", `failed to read egress selector config: strict decoding error: unknown field "foo"`},
		{"names", header + "egressSelections: [{name: nodes, connection: {proxyProtocol: Direct}},{name: cluster, connection: {proxyProtocol: Direct}},{name: CLUSTER, connection: {proxyProtocol: SOCKS}}]",
			invalid + `[service.connection.protocol: Unsupported value: "SOCKS": supported values: "Direct", "HTTPConnect", "GRPC", service.connection: Unsupported value: "nodes": supported values: "cluster", "controlplane", "etcd", service.connection[2]: Duplicate value: "cluster"]`},
		{"TLS over http", header + `egressSelections: [{name: etcd, connection: {proxyProtocol: HTTPConnect, transport: {tcp: {url: "http://127.0.0.1:1", tlsConfig: {}}}}}]`,
			invalid + `service.connection.tlsConfig: Invalid value: "nil": config must not be present when using HTTP`},
		{"files", header + `egressSelections: [{name: etcd, connection: {proxyProtocol: HTTPConnect, transport: {tcp: {url: "https://127.0.0.1:1", tlsConfig: {caBundle: /nowhere, clientKey: /n}}}}}]`,
			invalid + `[service.connection.tlsConfig.caBundle: Invalid value: "/nowhere": TLS config ca bundle does not exist, service.connection.tlsConfig.clientCert: Invalid value: "nil": Using TLS requires clientCert, service.connection.tlsConfig.clientKey: Invalid value: "/n": TLS client key does not exist]`},
		{"no TLS over https", header + `egressSelections: [{name: etcd, connection: {proxyProtocol: HTTPConnect, transport: {tcp: {url: "https://127.0.0.1:1"}}}}]`,
			invalid + `service.connection.tlsConfig: Required value: TLSConfig must be present when using HTTPS`},
		{"scheme", header + `egressSelections: [{name: etcd, connection: {proxyProtocol: HTTPConnect, transport: {tcp: {url: "ftp://127.0.0.1:1"}}}}]`,
			invalid + `service.connection.url: Invalid value: "ftp://127.0.0.1:1": supported connection protocols are http:// and https://`},
		{"both", header + `egressSelections: [{name: etcd, connection: {proxyProtocol: HTTPConnect, transport: {uds: {udsName: ""}, tcp: {url: "https://127.0.0.1:1"}}}}]`,
			invalid + `service.connection.tcp: Invalid value: {"URL":"https://127.0.0.1:1","TLSConfig":null}: TCP and UDS cannot both be set`},
		{"no socket", header + `egressSelections: [{name: etcd, connection: {proxyProtocol: HTTPConnect, transport: {uds: {udsName: ""}}}}]`,
			invalid + `service.connection.udsName: Invalid value: "nil": must be present for UDS connections`},
		{"no transport", header + `egressSelections: [{name: etcd, connection: {proxyProtocol: HTTPConnect, transport: {}}},{name: cluster, connection: {proxyProtocol: GRPC}},{name: controlplane, connection: {proxyProtocol: HTTPConnect}}]`,
			invalid + `[service.connection.tcp: Required value: One of TCP or UDS must be set, service.connection.transport: Required value: transport must be set for GRPC, service.connection.transport: Required value: transport must be set for HTTPConnect]`},
		{"GRPC over TCP", header + `egressSelections: [{name: etcd, connection: {proxyProtocol: GRPC, transport: {tcp: {url: "https://127.0.0.1:1"}}}}]`,
			invalid + `service.connection.uds: Required value: UDS must be set with GRPC`},
		{"direct", header + `egressSelections: [{name: etcd, connection: {proxyProtocol: Direct, transport: {}}}]`,
			invalid + `service.connection.transport: Invalid value: "direct": config must be absent for direct connect`},
		{"no protocol", header + `egressSelections: [{name: etcd, connection: {}}]`,
			invalid + `service.connection.protocol: Unsupported value: "": supported values: "Direct", "HTTPConnect", "GRPC"`},
		{"no certificate", header + `egressSelections: [{name: etcd, connection: {proxyProtocol: HTTPConnect, transport: {tcp: {url: "https://127.0.0.1:1", tlsConfig: {clientKey: ` + file + `, clientCert: ` + file + `}}}}}]`,
			`failed to create dialer for egressSelection "etcd": failed to read key pair ` + file + " & " + file + ", got "},
	} {
		_, err := load(t, c.text)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s:\n got %v\nwant %s", c.name, err, c.want)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none"), prometheus.NewRegistry(), clock.RealClock{}); err == nil {
		t.Error("a file that does not exist was accepted")
	}
}

// A network that is not configured has no dialer; one with a direct connection has one.
func TestNetworks(t *testing.T) {
	// Networks had other names in earlier versions.
	for _, name := range []string{"controlplane", "ControlPlane", "master"} {
		s, err := load(t, header+"egressSelections: [{name: "+name+", connection: {proxyProtocol: Direct}}]")
		if err != nil || s.Dial(ControlPlane) == nil || s.Dial(Etcd) != nil {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	if s, err := load(t, strings.Replace(header, "v1beta1", "v1alpha1", 1)); err != nil || s.Dial(Cluster) != nil {
		t.Errorf("%v, %v", s, err)
	}
	if (*Selector)(nil).Dial(Cluster) != nil {
		t.Error("a dialer without a configuration")
	}
}

// A proxy gets no more time than a plain connection, whatever the caller's deadline.
func TestBounded(t *testing.T) {
	p := &proxy{connect: func(ctx context.Context) (ask, error) {
		if d, ok := ctx.Deadline(); !ok || time.Until(d) > dialTimeout {
			t.Errorf("the deadline is %v (%v)", d, ok)
		}
		return nil, errors.New("no proxy")
	}}
	if _, err := p.dialer(newMetrics(prometheus.NewRegistry()), clock.RealClock{})(t.Context(), "tcp", "a.example.com:1"); err == nil {
		t.Error("no error")
	}
}
