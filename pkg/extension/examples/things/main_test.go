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

// TestThings makes a thing on the server, which a kanzen in the same process is the host of.
func TestThings(t *testing.T) {
	host := kanzentest.Start(t, kanzentest.Listen()).SocketConfig()
	ctx, stop := context.WithCancel(t.Context())
	r, err := server().Start(ctx, extension.Options{Host: host, Listen: "127.0.0.1:0", Storage: extension.Memory()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		stop()
		if err := r.Wait(); err != nil {
			t.Error(err)
		}
	}()
	c := rest.CopyConfig(host) // the administrator of the host is known by the same certificate
	c.Host, c.CAFile, c.CAData = r.Address(), "", r.CABundle()
	things := dynamic.NewForConfigOrDie(c).Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"})
	made, err := things.Namespace("default").Apply(ctx, "one", &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "one"}, "spec": map[string]any{"color": "red"},
	}}, metav1.ApplyOptions{FieldManager: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if size, _, _ := unstructured.NestedInt64(made.Object, "spec", "size"); size != 1 {
		t.Errorf("the default size is not 1: %v", made.Object)
	}
}
