package kanzentest_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
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

// TestMissedRequests has the message say what came in the place of what was waited for.
func TestMissedRequests(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t)
	mustCreate(t, client(t, s.Config()), "a")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		match      kanzentest.Match
		want, also string
	}{
		{kanzentest.Match{Verbs: "delete", Resource: "configmaps"}, `delete of configmaps; near to it`, `201 create /api/v1/namespaces/default/configmaps by "kubernetes-admin"`},
		{kanzentest.Match{Verbs: "create", Resource: "configmap"}, `there is no resource "configmap", write "configmaps"`, "201 create"},
		{kanzentest.Match{Resource: "cm"}, `write "configmaps"`, ""},
		{kanzentest.Match{Resource: "widgets.example.com"}, `there is no resource "widgets.example.com"`, ""},
		{kanzentest.Match{Resource: "pods/status", User: "bob", Namespace: "x", Name: "y"}, `of pods/status in x named "y" by "bob"`, ""},
	} {
		_, err := s.AwaitRequest(ended, c.match)
		if err == nil || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.also) {
			t.Errorf("%+v: %v", c.match, err)
		}
		if c.also == "" && strings.Contains(err.Error(), "near") {
			t.Errorf("%+v is near to nothing: %v", c.match, err)
		}
	}
}
