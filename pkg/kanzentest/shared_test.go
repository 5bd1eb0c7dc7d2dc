package kanzentest_test

import (
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
