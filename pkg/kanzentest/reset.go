package kanzentest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Reset takes the server back to where it was when it was handed out: with the objects of an empty cluster and what
// Options.Install had, and nothing else. The record of requests and all faults are gone. Watches end; a client that
// resumes one is given the deletions or told that they are too old (410), so that informers go on with an empty cluster.
// Resource versions go on too. Reset needs the log in memory.
//
// Whoever shares the server must not use it meanwhile.
func (s *Server) Reset(ctx context.Context) error {
	if s.memory == nil {
		return errors.New("kanzentest: Reset needs the log in memory")
	}
	s.faults.clear()
	rev := s.memory.Reset(s.base)
	// The server must have seen everything before the history is dropped; otherwise it would begin anew.
	if err := s.plane.CatchUp(ctx); err != nil {
		return fmt.Errorf("kanzentest: reset: %w", err)
	}
	if err := s.memory.Compact(ctx, rev); err != nil && !errors.Is(err, kv.ErrCompacted) {
		return fmt.Errorf("kanzentest: reset: %w", err)
	}
	s.watches.end(nil)
	s.forget()
	return nil
}

// maxName is how much of a test's name is in the name of its namespace.
const maxName = 40

// Namespace makes a namespace for a test and deletes it when the test ends. It returns its name.
func (s *Server) Namespace(t testing.TB) string {
	t.Helper()
	c, err := s.clients()
	if err != nil {
		t.Fatal(err)
	}
	namespaces := c.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	ns := &unstructured.Unstructured{}
	ns.SetAPIVersion("v1")
	ns.SetKind("Namespace")
	ns.SetGenerateName(namespacePrefix(t.Name()))
	made, err := namespaces.Create(t.Context(), ns, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("kanzentest: make a namespace: %v", err)
	}
	t.Cleanup(func() {
		// The server may have been stopped or reset by now.
		_ = namespaces.Delete(context.WithoutCancel(t.Context()), made.GetName(), metav1.DeleteOptions{})
	})
	return made.GetName()
}

// namespacePrefix makes the beginning of a namespace's name of the name of a test.
func namespacePrefix(test string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, test)
	name = strings.Trim(name, "-")
	if len(name) > maxName {
		name = strings.Trim(name[:maxName], "-")
	}
	if name == "" {
		return "test-"
	}
	return name + "-"
}
