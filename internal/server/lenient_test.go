package server

import (
	"bytes"
	"testing"

	"github.com/kanzen-io/kanzen/internal/process/config"
)

// Versions of a kind from before it was strict keep their habits.
func TestLenientVersions(t *testing.T) {
	s := startWith(t, func(c *config.Config) { c.RuntimeConfig = []string{"resource.k8s.io/v1beta2=true"} })
	const group, rules = "/apis/resource.k8s.io/", "/devicetaintrules"
	rule := []byte(`{"metadata":{"name":"r"},"spec":{"taint":{"key":"k","effect":"None"}}}`)
	do(t, s, "POST", group+"v1"+rules, "application/json", "", rule, 201)
	do(t, s, "PUT", group+"v1"+rules+"/r", "application/json", "", rule, 422)
	do(t, s, "PUT", group+"v1beta2"+rules+"/r", "application/json", "", rule, 200)
	for version, kind := range map[string]string{"v1": `"Status"`, "v1beta2": `"DeviceTaintRule"`} {
		if got := do(t, s, "DELETE", group+version+rules+"/r?dryRun=All", "", "", nil, 200); !bytes.Contains(got, []byte(`"kind":`+kind)) {
			t.Errorf("%s: a deletion is answered with %s", version, got)
		}
	}
}
