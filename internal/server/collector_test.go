package server

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/process/config"
)

// The garbage collector loads no views: a server that runs it holds the same resources in memory as one that does not, and
// still collects.
func TestCollectorLoadsNoViews(t *testing.T) {
	t.Parallel()
	loaded := func(controllers ...string) []string {
		s := startWith(t, func(c *config.Config) { c.Controllers = controllers })
		k := clientOf(s)
		owner, err := k.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = k.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "dependent",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ServiceAccount", Name: "owner", UID: owner.UID}}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := k.CoreV1().ServiceAccounts("default").Delete(t.Context(), "owner", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(30 * time.Second); len(controllers) > 0; time.Sleep(5 * time.Millisecond) {
			_, err := k.CoreV1().ServiceAccounts("default").Get(t.Context(), "dependent", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the dependent stays: %v", err)
			}
		}
		var out []string
		for _, ep := range s.base.objects.Live.Endpoints() {
			if _, _, ok := s.base.objects.Live.Size(ep.GVR.Group, ep.GVR.Resource); ok && !slices.Contains(out, ep.GVR.GroupResource().String()) {
				out = append(out, ep.GVR.GroupResource().String())
			}
		}
		slices.Sort(out)
		return out
	}
	without, with := loaded(), loaded("garbage-collector-controller")
	if len(without) == 0 || !slices.Equal(without, with) {
		t.Errorf("without the collector %d resources are loaded, %q; with it %d, %q", len(without), without, len(with), with)
	}
}
