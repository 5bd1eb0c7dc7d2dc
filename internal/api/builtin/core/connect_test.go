package core

import (
	"testing"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

// TestStreamsNeedCreate asks what a stream that GET opens needs, with the gate on and off.
func TestStreamsNeedCreate(t *testing.T) {
	for flag, need := range map[string]bool{"": true, features.AuthorizePodWebsocketUpgradeCreatePermission + "=false": false} {
		gates, err := features.Parse([]string{flag}, features.Now())
		if err != nil {
			t.Fatal(err)
		}
		var d Deps
		d.Pods.Gates = gates
		subs := map[string]*engine.Subresource{}
		for _, s := range pods(d).Subresources {
			subs[s.Name] = s
		}
		for _, name := range []string{"attach", "exec", "portforward"} {
			if got := subs[name].MustCreate; got != need {
				t.Errorf("%q: %s needs create: %t, want %t", flag, name, got, need)
			}
		}
	}
}
