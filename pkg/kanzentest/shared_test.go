package kanzentest_test

import (
	"fmt"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// TestOwnIdentities has servers that begin with the same objects, but are different clusters.
func TestOwnIdentities(t *testing.T) {
	t.Parallel()
	a, b := client(t, kanzentest.Start(t).Config()), client(t, kanzentest.Start(t).Config())
	uid := func(k *kubernetes.Clientset) string {
		ns, err := k.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return string(ns.UID)
	}
	if uid(a) == uid(b) {
		t.Error("two clusters are one")
	}
	token, err := a.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for k, want := range map[*kubernetes.Clientset]bool{a: true, b: false} {
		r, err := k.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token}}, metav1.CreateOptions{})
		if err != nil || r.Status.Authenticated != want {
			t.Errorf("a token of the first: %v, %v", r.Status, err)
		}
	}
}

// TestStartedTogether: each of several servers that start together for the first time has what controllers put into an empty cluster, whichever
// of them is ready first.
func TestStartedTogether(t *testing.T) {
	t.Parallel()
	for n := range 4 {
		settings := kanzentest.Flags(fmt.Sprintf("--event-ttl=%dm", 50+n)) // that no other test has
		var starting sync.WaitGroup
		for range 6 {
			starting.Go(func() {
				s, err := kanzentest.New(t.Context(), settings)
				if err != nil {
					t.Error(err)
					return
				}
				k, err := kubernetes.NewForConfig(s.Config())
				if err != nil {
					t.Error(err)
					return
				}
				for _, ns := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
					if _, err := k.CoreV1().ConfigMaps(ns).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{}); err != nil {
						t.Error(ns, err)
					}
				}
				if err := s.Stop(); err != nil {
					t.Error(err)
				}
			})
		}
		starting.Wait()
	}
}
