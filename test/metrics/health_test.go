package metrics

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// TestHealthFacts compares the names of the checks with kube-apiserver's.
func TestHealthFacts(t *testing.T) {
	facts := map[string][]string{}
	data, err := os.ReadFile("testdata/healthchecks.json")
	if err == nil {
		err = json.Unmarshal(data, &facts)
	}
	page, err2 := os.ReadFile("../../docs/differences.md")
	if err != nil || err2 != nil || len(facts) != 3 {
		t.Fatal(len(facts), err, err2)
	}
	_, added, _ := strings.Cut(string(page), "\n- Checks that only kanzen has")
	added, _, _ = strings.Cut(added, "\n## ")
	r := kubernetes.NewForConfigOrDie(kanzentest.Start(t).Config()).RESTClient()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for r.Get().AbsPath("/readyz").Do(ctx).Error() != nil {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the server does not become ready")
		}
	}
	for root, names := range facts {
		raw, err := r.Get().AbsPath("/"+root).Param("verbose", "").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var have []string
		for _, m := range regexp.MustCompile(`(?m)^\[\+\](\S+) ok$`).FindAllStringSubmatch(string(raw), -1) {
			if !strings.Contains(added, "`"+m[1]+"`") {
				have = append(have, m[1])
			}
		}
		if !slices.Equal(slices.Sorted(slices.Values(have)), slices.Sorted(slices.Values(names))) {
			t.Errorf("/%s has %v, want %v", root, have, names)
		}
	}
}

// TestExpiredIdentities: the lease of a server that is gone is deleted when another one starts, and no other lease.
func TestExpiredIdentities(t *testing.T) {
	dir := t.TempDir()
	t.Run("before", func(t *testing.T) {
		leases := kubernetes.NewForConfigOrDie(kanzentest.Start(t, kanzentest.DataDir(dir)).Config()).CoordinationV1().Leases("kube-system")
		for name, identity := range map[string]string{"gone": "kube-apiserver", "other": "something"} {
			seconds, renewed := int32(10), metav1.NewMicroTime(time.Now().Add(-time.Hour))
			_, err := leases.Create(t.Context(), &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"apiserver.kubernetes.io/identity": identity}},
				Spec:       coordinationv1.LeaseSpec{LeaseDurationSeconds: &seconds, RenewTime: &renewed},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	leases := kubernetes.NewForConfigOrDie(kanzentest.Start(t, kanzentest.DataDir(dir)).Config()).CoordinationV1().Leases("kube-system")
	if _, err := leases.Get(t.Context(), "gone", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the expired lease: %v", err)
	}
	if _, err := leases.Get(t.Context(), "other", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}
