package server

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

// earlier is a clock that is behind the real one.
type earlier struct {
	clock.RealClock
	by time.Duration
}

func (e earlier) Now() time.Time                         { return e.RealClock.Now().Add(-e.by) }
func (e earlier) Since(t time.Time) time.Duration        { return e.Now().Sub(t) }
func (e earlier) NewTimer(d time.Duration) clock.Timer   { return e.RealClock.NewTimer(d) }
func (e earlier) NewTicker(d time.Duration) clock.Ticker { return e.RealClock.NewTicker(d) }

// A generated token that nobody has used for a year becomes invalid, and a year later it is deleted. Tokens that were used,
// that a pod mounts, that somebody created by hand or that are younger stay as they are.
func TestUnusedLegacyTokens(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	g := shared(t)
	at := func(name string, ago time.Duration, f func(t *testing.T, k *kubernetes.Clientset)) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			on := *g
			on.Clock = earlier{by: ago}
			f(t, clientOf(plane(t, &on, "/tokens")))
		})
	}
	token := func(t *testing.T, k *kubernetes.Clientset, name string, labels map[string]string) {
		t.Helper()
		_, err := k.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{Type: corev1.SecretTypeServiceAccountToken,
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{corev1.ServiceAccountNameKey: "robot"}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	at("two years ago", 800*day, func(t *testing.T, k *kubernetes.Clientset) {
		robot := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}
		for _, name := range []string{"unused", "used", "mounted", "young"} {
			robot.Secrets = append(robot.Secrets, corev1.ObjectReference{Name: name})
		}
		if _, err := k.CoreV1().ServiceAccounts("default").Create(t.Context(), robot, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		token(t, k, "unused", nil)
		token(t, k, "used", map[string]string{"kubernetes.io/legacy-token-last-used": time.Now().Format(time.DateOnly)})
		token(t, k, "mounted", nil)
		token(t, k, "by-hand", nil) // the account does not name it
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{ServiceAccountName: "robot", Containers: []corev1.Container{{Name: "c", Image: "i"}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "mounted"}}}}}}
		if _, err := k.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	// is waits until the tokens are as wanted: valid, invalid (by its label) or gone.
	is := func(t *testing.T, k *kubernetes.Clientset, want map[string]string) {
		t.Helper()
		deadline := time.Now().Add(30 * time.Second)
		for {
			wrong := ""
			for name, state := range want {
				s, err := k.CoreV1().Secrets("default").Get(t.Context(), name, metav1.GetOptions{})
				got := "valid"
				switch {
				case apierrors.IsNotFound(err):
					got = "gone"
				case err != nil:
					got = err.Error()
				case s.Labels["kubernetes.io/legacy-token-invalid-since"] != "":
					got = "invalid"
				}
				if got != state {
					wrong += fmt.Sprintf(" %s is %s, want %s;", name, got, state)
				}
			}
			if wrong == "" {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal(wrong)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	at("a year later", 400*day, func(t *testing.T, k *kubernetes.Clientset) {
		token(t, k, "young", nil)
		is(t, k, map[string]string{"unused": "invalid"})
		is(t, k, map[string]string{"used": "valid", "mounted": "valid", "by-hand": "valid", "young": "valid"})
	})
	at("today", 0, func(t *testing.T, k *kubernetes.Clientset) {
		is(t, k, map[string]string{"unused": "gone", "young": "invalid"})
		is(t, k, map[string]string{"used": "valid", "mounted": "valid", "by-hand": "valid"})
	})
}
