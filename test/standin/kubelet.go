// Package standin is a kubelet for tests. It serves a kubelet's API over TLS and runs processes on this machine as
// containers: exec and attach reach them, logs are their output in real files, port-forward reaches real listeners.
package standin

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	stdlog "log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// Kubelet is a kubelet. Start makes one.
type Kubelet struct {
	// Node is the name of its node.
	Node string
	// CA is a file with the authority of its certificate.
	CA string

	dir    string
	port   int
	server *http.Server

	mu         sync.Mutex
	containers map[string]*container // by namespace/pod/container; guarded by mu
	conns      map[net.Conn]bool     // those that are open; guarded by mu

	followers atomic.Int32

	// Intercept, if set, serves requests instead; it reports whether it has.
	intercept atomic.Pointer[func(w http.ResponseWriter, r *http.Request) bool]
}

// Start starts a kubelet that ends with the test.
func Start(t testing.TB, node string) *Kubelet {
	t.Helper()
	k := &Kubelet{Node: node, dir: t.TempDir(), containers: map[string]*container{}, conns: map[net.Conn]bool{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k.port = l.Addr().(*net.TCPAddr).Port
	k.server = &http.Server{
		Handler: k, ErrorLog: stdlog.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{k.certificate(t)}, NextProtos: []string{"http/1.1"}},
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = k.server.ServeTLS(tracking{l, k}, "", "")
	}()
	t.Cleanup(func() {
		k.Stop()
		<-served
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, c := range k.containers {
			c.stop()
		}
	})
	return k
}

// Stop stops serving, and cuts all connections.
func (k *Kubelet) Stop() {
	_ = k.server.Close()
	k.Cut()
}

// Cut cuts all connections.
func (k *Kubelet) Cut() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.conns {
		_ = c.(*tracked).Conn.Close()
	}
}

// Connections is how many connections are open.
func (k *Kubelet) Connections() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.conns)
}

// tracking is a listener that knows which of its connections are open, also those that were hijacked.
type tracking struct {
	net.Listener
	k *Kubelet
}

// Accept is part of net.Listener.
func (l tracking) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	t := &tracked{c, l.k}
	l.k.mu.Lock()
	defer l.k.mu.Unlock()
	l.k.conns[t] = true
	return t, nil
}

type tracked struct {
	net.Conn
	k *Kubelet
}

// Close is part of net.Conn.
func (c *tracked) Close() error {
	c.k.mu.Lock()
	delete(c.k.conns, c)
	c.k.mu.Unlock()
	return c.Conn.Close()
}

// Intercept has a func serve requests instead, if it reports that it has; nil ends that.
func (k *Kubelet) Intercept(f func(w http.ResponseWriter, r *http.Request) bool) {
	if f == nil {
		k.intercept.Store(nil)
		return
	}
	k.intercept.Store(&f)
}

// Register makes the node object, with the address and port of the kubelet.
func (k *Kubelet) Register(t testing.TB, client kubernetes.Interface) {
	t.Helper()
	n, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: k.Node}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	n.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(k.port)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if _, err := client.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// Run makes a pod on the node whose containers run their commands on this machine, with a status that says so.
func (k *Kubelet) Run(t testing.TB, client kubernetes.Interface, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	if p.Namespace == "" {
		p.Namespace = "default"
	}
	p.Spec.NodeName = k.Node
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].Image = "none"
	}
	pods := client.CoreV1().Pods(p.Namespace)
	// The namespace's service account is made by a controller, if there is one.
	off := false
	p.Spec.AutomountServiceAccountToken = &off
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		made, err := pods.Create(ctx, p, metav1.CreateOptions{})
		if err == nil {
			p = made
		}
		return err == nil, nil
	})
	if err != nil {
		_, err = pods.Create(t.Context(), p, metav1.CreateOptions{})
		t.Fatal(err)
	}
	p.Status.Phase = corev1.PodRunning
	p.Status.PodIP, p.Status.PodIPs = "10.9.8.7", []corev1.PodIP{{IP: "10.9.8.7"}}
	for _, c := range p.Spec.Containers {
		k.runContainer(t, p, c.Name, c.Command, c.Stdin, c.TTY)
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}})
	}
	made, err := pods.UpdateStatus(t.Context(), p, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// ServeHTTP serves the kubelet's API.
func (k *Kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f := k.intercept.Load(); f != nil && (*f)(w, r) {
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", k.exec)
	mux.HandleFunc("/attach/{namespace}/{pod}/{container}", k.attach)
	mux.HandleFunc("/portForward/{namespace}/{pod}", k.portForward)
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", k.logs)
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.ServeHTTP(w, r)
}

const (
	idle     = time.Hour
	creation = 30 * time.Second
)

func (k *Kubelet) find(r *http.Request) *container {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.containers[r.PathValue("namespace")+"/"+r.PathValue("pod")+"/"+r.PathValue("container")]
}

func (k *Kubelet) exec(w http.ResponseWriter, r *http.Request) {
	o, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c := k.find(r)
	if c == nil {
		http.Error(w, "container not found", http.StatusNotFound)
		return
	}
	remotecommand.ServeExec(w, r, c, c.name, "", c.name, r.URL.Query()["command"], o, idle, creation, remotecommand.SupportedStreamingProtocols)
}

func (k *Kubelet) attach(w http.ResponseWriter, r *http.Request) {
	o, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c := k.find(r)
	if c == nil {
		http.Error(w, "container not found", http.StatusNotFound)
		return
	}
	remotecommand.ServeAttach(w, r, c, c.name, "", c.name, o, idle, creation, remotecommand.SupportedStreamingProtocols)
}

func (k *Kubelet) portForward(w http.ResponseWriter, r *http.Request) {
	o, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, r, forwarder{}, r.PathValue("pod"), "", o, idle, creation, portforward.SupportedProtocols)
}

// forwarder forwards ports of pods to the same ports of this machine.
type forwarder struct{}

// PortForward is part of portforward.PortForwarder.
func (forwarder) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	defer conn.Close()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.Copy(conn, stream)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, conn)
	_ = stream.Close()
	<-sent
	return err
}

// certificate makes a certificate for the loopback address, which is its own authority.
func (k *Kubelet) certificate(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: k.Node}, NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	k.CA = filepath.Join(k.dir, "ca.crt")
	if err := os.WriteFile(k.CA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
