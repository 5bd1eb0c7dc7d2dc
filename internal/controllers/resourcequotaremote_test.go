package controllers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// A quota shows how many objects an extension server has, as its watch reports.
func TestQuotaOfRemoteObjects(t *testing.T) {
	t.Parallel()
	// The garbage collector would watch too, and take events away.
	c := kanzentest.Start(t, kanzentest.Controllers("resourcequota-controller")).Config()
	k, d := kubernetes.NewForConfigOrDie(c), dynamic.NewForConfigOrDie(c)
	object := func(namespace, name string) map[string]any {
		return map[string]any{"apiVersion": "ext.test/v1", "kind": "Thing", "metadata": map[string]any{"name": name, "namespace": namespace, "resourceVersion": "1"}}
	}
	events := make(chan map[string]any)
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /apis/ext.test/v1", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "ext.test/v1", APIResources: []metav1.APIResource{
			{Name: "things", SingularName: "thing", Namespaced: true, Kind: "Thing", Verbs: metav1.Verbs{"create", "delete", "get", "list", "watch"}}}})
	})
	mux.HandleFunc("GET /apis/ext.test/v1/things", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("watch") == "" {
			answer(w, map[string]any{"kind": "ThingList", "apiVersion": "ext.test/v1", "metadata": map[string]any{"resourceVersion": "1"},
				"items": []any{object("default", "a"), object("default", "b"), object("kube-system", "c")}})
			return
		}
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case e := <-events:
				answer(w, e)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	s := httptest.NewUnstartedServer(mux)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	port := int32(s.Listener.Addr().(*net.TCPAddr).Port)
	_, err := k.CoreV1().Services("default").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "ext"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}}, metav1.CreateOptions{})
	must(t, err)
	obj, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&apiregistrationv1.APIService{
		TypeMeta: metav1.TypeMeta{Kind: "APIService", APIVersion: "apiregistration.k8s.io/v1"}, ObjectMeta: metav1.ObjectMeta{Name: "v1.ext.test"},
		Spec: apiregistrationv1.APIServiceSpec{Group: "ext.test", Version: "v1", GroupPriorityMinimum: 2000, VersionPriority: 15, InsecureSkipTLSVerify: true,
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "ext", Port: &port}}})
	must(t, err)
	_, err = d.Resource(apiregistrationv1.SchemeGroupVersion.WithResource("apiservices")).Create(t.Context(), &unstructured.Unstructured{Object: obj}, metav1.CreateOptions{})
	must(t, err)
	const name corev1.ResourceName = "count/things.ext.test"
	_, err = k.CoreV1().ResourceQuotas("default").Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{name: resource.MustParse("10")}}}, metav1.CreateOptions{})
	must(t, err)
	uses := func(want int64) {
		t.Helper()
		await(t, func(ctx context.Context) string {
			q, err := k.CoreV1().ResourceQuotas("default").Get(ctx, "q", metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if used, ok := q.Status.Used[name]; !ok || used.Value() != want {
				return fmt.Sprintf("the quota shows %v, want %d", q.Status.Used, want)
			}
			return ""
		})
	}
	uses(2)
	events <- map[string]any{"type": "ADDED", "object": object("default", "d")}
	events <- map[string]any{"type": "ADDED", "object": object("kube-system", "e")}
	uses(3)
	events <- map[string]any{"type": "DELETED", "object": object("default", "a")}
	events <- map[string]any{"type": "DELETED", "object": object("default", "b")}
	uses(1)
}
