package operator

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// TestRun has the controller act with the rights that it will have, and meet a conflict.
func TestRun(t *testing.T) {
	s := kanzentest.Start(t)
	ns := s.Namespace(t)
	operator := s.User(t, "operator", "get,list,watch,update configmaps in "+ns)
	conflict := s.Inject(kanzentest.Conflict("configmaps", 1))

	go func() { _ = Run(t.Context(), kubernetes.NewForConfigOrDie(operator.Config()), ns) }()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	if _, err := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().ConfigMaps(ns).Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	updates := kanzentest.Match{Verbs: "update", Resource: "configmaps", User: "operator", Name: "a"}
	for done := false; !done; {
		if _, err := s.AwaitRequest(t.Context(), updates); err != nil {
			t.Fatal(err)
		}
		for _, r := range s.Requests(updates) {
			done = done || r.Code == 200
		}
	}
	if conflict.Applied() != 1 {
		t.Errorf("the conflict was met %d times", conflict.Applied())
	}
	for _, r := range s.Requests(kanzentest.Match{User: "operator"}) {
		if r.Code == 403 {
			t.Errorf("the operator lacks a right: %v", r)
		}
	}
}
