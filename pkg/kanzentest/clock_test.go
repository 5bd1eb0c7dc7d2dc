package kanzentest_test

import (
	"context"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// TestClock lets events and tokens expire.
func TestClock(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]time.Time{"now": {}, "in another year": time.Date(2031, 5, 1, 0, 0, 0, 0, time.UTC)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := kanzentest.NewClock(begin)
			s := kanzentest.Start(t, kanzentest.WithClock(c))
			k := client(t, s.Config())
			if _, err := k.CoreV1().Events("default").Create(t.Context(), &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "default"},
				InvolvedObject: corev1.ObjectReference{Namespace: "default"}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			life := int64(3600)
			token, err := k.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default",
				&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &life}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			review := func() bool {
				r, err := k.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token}}, metav1.CreateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return r.Status.Authenticated
			}
			if !begin.IsZero() && token.Status.ExpirationTimestamp.Year() != begin.Year() {
				t.Errorf("the token ends %v", token.Status.ExpirationTimestamp)
			}
			if !review() {
				t.Fatal("a new token is refused")
			}
			c.Advance(30 * time.Minute)
			if _, err := k.CoreV1().Events("default").Get(t.Context(), "e", metav1.GetOptions{}); err != nil || !review() {
				t.Errorf("after half an hour: %v", err)
			}
			before := c.Now()
			c.Advance(2 * time.Hour)
			if d := c.Now().Sub(before); d < 2*time.Hour {
				t.Errorf("the clock went on by %v", d)
			}
			within(t, func(ctx context.Context) bool {
				_, err := k.CoreV1().Events("default").Get(ctx, "e", metav1.GetOptions{})
				return apierrors.IsNotFound(err)
			})
			if review() {
				t.Error("the token has not expired")
			}
		})
	}
}
