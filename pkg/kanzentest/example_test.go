package kanzentest_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// A server without a test, for TestMain or a program with a control plane inside.
func ExampleNew() {
	ctx := context.Background()
	s, err := kanzentest.New(ctx)
	if err != nil {
		panic(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			panic(err)
		}
	}()
	k := kubernetes.NewForConfigOrDie(s.Config())
	if _, err := k.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
		panic(err)
	}
	for _, r := range s.Requests(kanzentest.Match{Verbs: "create"}) {
		fmt.Println(r.Verb, r.Resource, r.Code)
	}
	if err := s.Reset(ctx); err != nil {
		panic(err)
	}
	_, err = k.CoreV1().ConfigMaps("default").Get(ctx, "a", metav1.GetOptions{})
	fmt.Println(err)
	// Output:
	// create configmaps 201
	// configmaps "a" not found
}
