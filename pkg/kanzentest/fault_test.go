package kanzentest_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// TestFaults injects each kind of fault, with and without a record.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]kanzentest.Option{"record": nil, "no record": {kanzentest.NoRecord()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := kanzentest.Start(t, options...)
			k := client(t, s.Config())
			mustCreate(t, k, "a")
			update := func() error {
				c, err := k.CoreV1().ConfigMaps("default").Get(t.Context(), "a", metav1.GetOptions{})
				if err == nil {
					c.Data = map[string]string{"at": time.Now().String()}
					_, err = k.CoreV1().ConfigMaps("default").Update(t.Context(), c, metav1.UpdateOptions{})
				}
				return err
			}
			second := s.Inject(kanzentest.Conflict("configmaps", 2))
			for n, want := range []bool{false, true, false} {
				if err := update(); apierrors.IsConflict(err) != want || !want && err != nil {
					t.Errorf("update %d: %v", n+1, err)
				}
			}
			if second.Applied() != 1 {
				t.Errorf("applied %d times", second.Applied())
			}
			s.Inject(kanzentest.Conflict("configmaps", 1))
			if err := retry.RetryOnConflict(retry.DefaultRetry, update); err != nil {
				t.Errorf("a client that retries: %v", err)
			}
			// client-go waits and comes again by itself.
			busy := s.Inject(kanzentest.TooManyRequests(kanzentest.Match{Verbs: "list", Resource: "secrets"}, 1, 1))
			if _, err := k.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); err != nil || busy.Applied() != 1 {
				t.Errorf("429: %v, applied %d times", err, busy.Applied())
			}
			slow := s.Inject(kanzentest.Slow("secrets", 50*time.Millisecond))
			began := time.Now()
			if _, err := k.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); err != nil || time.Since(began) < 50*time.Millisecond {
				t.Errorf("a slow list: %v after %v", err, time.Since(began))
			}
			slow.Remove()
			forever := s.Inject(kanzentest.Fault{On: kanzentest.Match{Resource: "nodes", User: "kubernetes-admin"}, Times: -1, Err: apierrors.NewInternalError(errors.New("broken"))})
			for range 3 {
				if _, err := k.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsInternalError(err) {
					t.Errorf("%v", err)
				}
			}
			if forever.Applied() != 3 {
				t.Errorf("applied %d times", forever.Applied())
			}
			if len(options) == 0 {
				if r := s.Requests(kanzentest.Match{Resource: "nodes"}); len(r) != 3 || !r[0].Fault || r[0].Code != http.StatusInternalServerError {
					t.Errorf("%v", r)
				}
			}
			if err := s.Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := k.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Errorf("after Reset: %v", err)
			}
		})
	}
}

// TestStopEtcd has etcd away and back.
func TestStopEtcd(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t)
	k := client(t, s.Config())
	restore := s.StopEtcd()
	if _, err := k.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("a"), metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "etcdserver: request timed out") {
		t.Errorf("a write without etcd: %v", err)
	}
	restore()
	restore()
	within(t, func(ctx context.Context) bool {
		_, err := k.CoreV1().ConfigMaps("default").Create(ctx, configMap("a"), metav1.CreateOptions{})
		return err == nil || apierrors.IsAlreadyExists(err)
	})
	within(t, func(ctx context.Context) bool {
		_, err := k.CoreV1().ConfigMaps("default").Get(ctx, "a", metav1.GetOptions{})
		return err == nil
	})
}

// TestEndWatches ends the watches of one resource.
func TestEndWatches(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t)
	k := client(t, s.Config())
	ended, err := k.CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	stays, err := k.CoreV1().Secrets("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer stays.Stop()
	s.EndWatches(kanzentest.Match{Resource: "configmaps"})
	for range ended.ResultChan() { //nolint:revive // until it is closed
	}
	if _, err := k.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if e := <-stays.ResultChan(); e.Object.(*corev1.Secret).Name != "s" {
		t.Errorf("%v", e)
	}
	s.Inject(kanzentest.Expired("configmaps"))
	if _, err := k.CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1"}); !apierrors.IsResourceExpired(err) {
		t.Errorf("an expired watch: %v", err)
	}
}
