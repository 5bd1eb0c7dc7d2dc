// Package testserver runs `kanzen serve --planes` for the tests of this module. The binary is that of $KANZEN.
package testserver

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Patience is how long tests wait for something.
const Patience = time.Minute

// Server is a server with planes, which can be stopped and started again at the same address.
type Server struct {
	t     testing.TB
	dir   string
	port  int
	flags []string
	cmd   *exec.Cmd
	log   bytes.Buffer
	Root  *rest.Config
}

// Start starts a server, which ends with the test.
func Start(t testing.TB, flags ...string) *Server {
	t.Helper()
	if os.Getenv("KANZEN") == "" {
		t.Skip("needs the path of a kanzen in $KANZEN")
	}
	s := &Server{t: t, dir: t.TempDir(), port: freePort(t), flags: flags}
	s.Start()
	t.Cleanup(s.Stop)
	var err error
	if s.Root, err = clientcmd.BuildConfigFromFlags("", filepath.Join(s.dir, "pki", "admin.kubeconfig")); err != nil {
		t.Fatal(err)
	}
	s.Root.QPS = -1
	return s
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Start starts the server after Stop, and returns when it serves.
func (s *Server) Start() {
	s.t.Helper()
	args := append([]string{"serve", "--planes", "--data-dir", s.dir, "--bind-address=127.0.0.1", fmt.Sprint("--secure-port=", s.port)}, s.flags...)
	s.cmd = exec.Command(os.Getenv("KANZEN"), args...)
	s.cmd.Stderr = &s.log
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		_ = s.cmd.Wait()
		s.t.Fatalf("kanzen does not serve: %v\n%s", err, s.log.String())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
}

// Stop stops the server.
func (s *Server) Stop() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(os.Interrupt)
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Client returns a client.
func Client(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Plane creates a plane and returns the config of its administrator.
func (s *Server) Plane(name, spec string, labels ...string) *rest.Config {
	s.t.Helper()
	c := Client(s.t, s.Root)
	Create(s.t, c, fmt.Sprintf("{apiVersion: planes.kanzen.io/v1, kind: Plane, metadata: {name: %q, labels: {%s}}, spec: {%s}}", name, strings.Join(labels, ", "), spec))
	plane := Object(s.t, fmt.Sprintf("{apiVersion: planes.kanzen.io/v1, kind: Plane, metadata: {name: %q}}", name))
	Await(s.t, "plane "+name+" is not ready", func(ctx context.Context) bool {
		return c.Get(ctx, client.ObjectKey{Name: name}, plane) == nil && IsTrue(plane, "Ready")
	})
	var secret corev1.Secret
	if err := c.Get(s.t.Context(), client.ObjectKey{Namespace: "kanzen-planes", Name: name + "-kubeconfig"}, &secret); err != nil {
		s.t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	if err != nil {
		s.t.Fatal(err)
	}
	config.QPS = -1
	return config
}

// DeletePlane deletes a plane, and returns when nothing of it is left.
func (s *Server) DeletePlane(name string) {
	s.t.Helper()
	c := Client(s.t, s.Root)
	plane := Object(s.t, fmt.Sprintf("{apiVersion: planes.kanzen.io/v1, kind: Plane, metadata: {name: %q}}", name))
	if err := c.Delete(s.t.Context(), plane); err != nil {
		s.t.Fatal(err)
	}
	Await(s.t, "plane "+name+" is still there", func(ctx context.Context) bool {
		return client.IgnoreNotFound(c.Get(ctx, client.ObjectKey{Name: name}, plane)) == nil && c.Get(ctx, client.ObjectKey{Name: name}, plane) != nil
	})
}

// IsTrue reports whether a condition of an object is True.
func IsTrue(o *unstructured.Unstructured, condition string) bool {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range all {
		if c, ok := c.(map[string]any); ok && c["type"] == condition {
			return c["status"] == "True"
		}
	}
	return false
}

// Object reads an object from YAML.
func Object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return o
}

// Create creates the objects of YAML documents.
func Create(t testing.TB, c client.Client, text string) {
	t.Helper()
	for document := range strings.SplitSeq(text, "\n---\n") {
		o := Object(t, document)
		// What was just defined may not be served yet.
		var err error
		Await(t, o.GetKind()+" "+o.GetName()+" cannot be created", func(ctx context.Context) bool {
			err = c.Create(ctx, o)
			return err == nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Bind has a plane bind the export that a Binding names, and waits until it has.
func Bind(t testing.TB, c client.Client, binding string) {
	t.Helper()
	Create(t, c, binding)
	o := Object(t, binding)
	Await(t, "the export is not bound", func(ctx context.Context) bool {
		return c.Get(ctx, client.ObjectKeyFromObject(o), o) == nil && IsTrue(o, "Bound")
	})
}

// Await waits until something is so.
func Await(t testing.TB, otherwise string, is func(context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	for !is(ctx) {
		select {
		case <-ctx.Done():
			t.Fatal(otherwise)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
