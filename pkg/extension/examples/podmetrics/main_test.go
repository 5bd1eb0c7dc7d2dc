package main

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/pkg/extension"
	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// TestPodMetrics asks the server for what it measures of itself.
func TestPodMetrics(t *testing.T) {
	host := kanzentest.Start(t, kanzentest.Listen()).SocketConfig()
	ctx, stop := context.WithCancel(t.Context())
	r, err := server().Start(ctx, extension.Options{Host: host, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		stop()
		if err := r.Wait(); err != nil {
			t.Error(err)
		}
	}()
	c := rest.CopyConfig(host)
	c.Host, c.CAFile, c.CAData = r.Address(), "", r.CABundle()
	pods := dynamic.NewForConfigOrDie(c).Resource(schema.GroupVersionResource{Group: "metrics.k8s.io", Version: "v1beta1", Resource: "pods"})
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "app=podmetrics"})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 {
		t.Fatalf("%d pods", len(list.Items))
	}
	containers, _, _ := unstructured.NestedSlice(list.Items[0].Object, "containers")
	if len(containers) != 1 || containers[0].(map[string]any)["usage"] == nil {
		t.Errorf("containers %v", containers)
	}
}
