package eventratelimit

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
)

func TestLimits(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	p, err := New(clock, []byte("limits: [{type: Namespace, qps: 1, burst: 2}]"))
	if err != nil {
		t.Fatal(err)
	}
	send := func(namespace string, dryRun bool) error {
		a := at.Create(schema.GroupResource{Resource: "events"}, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}})
		a.DryRun = dryRun
		return at.Run(p, a)
	}
	for i, want := range []bool{true, true, false} {
		if err := send("a", false); (err == nil) != want || err != nil && !apierrors.IsTooManyRequests(err) {
			t.Errorf("event %d: %v", i, err)
		}
	}
	if send("b", false) != nil || send("a", true) != nil {
		t.Error("another namespace and a dry run are free")
	}
	clock.SetTime(clock.Now().Add(time.Second))
	if send("a", false) != nil || send("a", false) == nil {
		t.Error("a second makes room for one")
	}
}

func TestConfig(t *testing.T) {
	for _, bad := range []string{"", "limits: []", "limits: [{type: X, qps: 1, burst: 1}]", "limits: [{type: Server, qps: 0, burst: 1}]",
		"limits: [{type: Server, qps: 1, burst: 0}]", "limits: [{type: User, qps: 1, burst: 1, cacheSize: -1}]"} {
		if _, err := parse([]byte(bad)); err == nil {
			t.Errorf("taken: %q", bad)
		}
	}
}
