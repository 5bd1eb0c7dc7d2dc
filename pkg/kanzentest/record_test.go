package kanzentest_test

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// TestRequests asserts on what clients asked.
func TestRequests(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t)
	if got := s.Requests(); len(got) != 0 {
		t.Errorf("before any: %v", got)
	}
	k := client(t, s.Config())
	mustCreate(t, k, "a")
	alice := client(t, s.ConfigFor("alice"))
	if _, err := alice.CoreV1().ConfigMaps("default").Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Fatal(err)
	}
	got := s.Requests(kanzentest.Match{Resource: "configmaps"})
	if len(got) != 2 || got[0].Verb != "create" || got[0].Code != http.StatusCreated || got[0].User != "kubernetes-admin" ||
		got[1].Verb != "get" || got[1].Code != http.StatusForbidden || got[1].User != "alice" || got[1].Name != "a" || got[1].Namespace != "default" {
		t.Errorf("%v", got)
	}
	for n, m := range map[int]kanzentest.Match{
		0: {Resource: "configmaps.apps"}, 1: {Verbs: "get,list", Resource: "configmaps", User: "alice", Name: "a", Namespace: "default"}, 2: {},
	} {
		if got := s.Requests(m); len(got) != n {
			t.Errorf("%+v: %v", m, got)
		}
	}
	go func() { _, _ = alice.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}) }()
	if r, err := s.AwaitRequest(t.Context(), kanzentest.Match{Resource: "nodes"}); err != nil || r.Code != http.StatusForbidden {
		t.Errorf("%v, %v", r, err)
	}
	// The controllers' own are kept apart.
	if _, err := k.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if r, err := s.AwaitRequest(t.Context(), kanzentest.Match{Internal: true, Verbs: "create", Resource: "serviceaccounts", Namespace: "n"}); err != nil || r.User == "" {
		t.Errorf("%v, %v", r, err)
	}
	quiet := kanzentest.Start(t, kanzentest.NoRecord())
	mustCreate(t, client(t, quiet.Config()), "a")
	if got := quiet.Requests(); got != nil {
		t.Errorf("without a record: %v", got)
	}
}
