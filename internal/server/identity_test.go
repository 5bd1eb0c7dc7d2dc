package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// TestServersThatRun has leases of servers with other settings, one of which has ended: it is not compared.
func TestServersThatRun(t *testing.T) {
	t.Parallel()
	on := *shared(t)
	clk := shifted{by: new(atomic.Int64)}
	on.Clock = clk
	s := plane(t, &on, "/servers")
	clk.by.Add(int64(30 * time.Minute))
	for name, ago := range map[string]time.Duration{"runs": time.Minute, "ended": 20 * time.Minute} {
		renewed, err := json.Marshal(metav1.NewMicroTime(clk.Now().Add(-ago)))
		if err != nil {
			t.Fatal(err)
		}
		do(t, s, "POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", "application/json", "", fmt.Appendf(nil, `{"metadata":{"name":%q,"labels":{"apiserver.kubernetes.io/identity":"kube-apiserver",
			"kubernetes.io/hostname":%[1]q},"annotations":{"kanzen.io/settings":"version=v0.0.1-%[1]s"}},"spec":{"holderIdentity":"x","leaseDurationSeconds":3600,"renewTime":%s}}`, name, renewed), 201)
	}
	var causes []string
	eventually(t, func() bool {
		clk.by.Add(int64(time.Second))
		var list v1alpha1.FindingList
		if err := json.Unmarshal(do(t, s, "GET", "/apis/"+v1alpha1.GroupVersion().String()+"/findings?fieldSelector=check%3DServersDiffer", "", "", nil, 200), &list); err != nil {
			t.Fatal(err)
		}
		causes = nil
		for _, f := range list.Items {
			causes = append(causes, f.Cause)
		}
		return len(causes) > 0
	})
	if len(causes) != 1 || !strings.Contains(causes[0], "v0.0.1-runs") {
		t.Errorf("%q", causes)
	}
}
