package controllers_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// TestCoordinated has the only candidate become the holder of its lease, and a better one that comes later be preferred.
func TestCoordinated(t *testing.T) {
	t.Parallel()
	k := kubernetes.NewForConfigOrDie(kanzentest.Start(t, kanzentest.Flags("--feature-gates=CoordinatedLeaderElection=true", "--runtime-config=coordination.k8s.io/v1beta1=true")).Config())
	leases, candidates := k.CoordinationV1().Leases("default"), k.CoordinationV1beta1().LeaseCandidates("default")
	nominate := func(name, emulation string) {
		renewed := metav1.NewMicroTime(time.Now())
		_, err := candidates.Create(t.Context(), &coordinationv1beta1.LeaseCandidate{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1beta1.LeaseCandidateSpec{
			LeaseName: "l", BinaryVersion: "1.37.0", EmulationVersion: emulation, Strategy: coordinationv1.OldestEmulationVersion, RenewTime: &renewed,
		}}, metav1.CreateOptions{})
		must(t, err)
	}
	holders := func(ctx context.Context) string {
		l, err := leases.Get(ctx, "l", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		var preferred string
		if p := l.Spec.PreferredHolder; p != nil {
			preferred = *p
		}
		return fmt.Sprintf("%s, preferred %q", *l.Spec.HolderIdentity, preferred)
	}
	nominate("new", "1.37.0")
	await(t, func(ctx context.Context) string {
		if got := holders(ctx); got != `new, preferred ""` {
			return got
		}
		return ""
	})
	l, err := leases.Get(t.Context(), "l", metav1.GetOptions{})
	must(t, err)
	hour := int32(3600)
	l.Spec.LeaseDurationSeconds = &hour
	_, err = leases.Update(t.Context(), l, metav1.UpdateOptions{})
	must(t, err)
	nominate("old", "1.36.0")
	await(t, func(ctx context.Context) string {
		if got := holders(ctx); got != `new, preferred "old"` {
			return got
		}
		return ""
	})
}
