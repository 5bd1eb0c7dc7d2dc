package engine

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/internal/request"
)

// TestDeprecatedByMediaType crosses requests for a deprecated version with media types. kube-apiserver does not warn where its router
// refuses the request by them (what it answers to these for Endpoints was asked of v1.36.3).
func TestDeprecatedByMediaType(t *testing.T) {
	x := newKinds(t)
	x.three()
	const at = "/apis/apps/v1beta1/namespaces/ns/deployments"
	for _, what := range []string{"GET " + at, "GET " + at + "/a", "GET " + at + "/a/status", "POST " + at, "PUT " + at + "/a", "PATCH " + at + "/a", "DELETE " + at + "/x"} {
		for _, accept := range []string{"", "application/json", "*/*", "application/cbor, */*", "application/cbor"} {
			for _, sent := range []string{"application/json", "application/cbor", "application/strategic-merge-patch+json", "application/apply-patch+cbor"} {
				ctx, warnings := request.WithWarnings(t.Context())
				r := x.request(ctx, what, "{}", "Content-Type: "+sent, "Accept: "+accept)
				x.serve(httptest.NewRecorder(), r)
				warned := strings.Contains(strings.Join(warnings.Take(), ","), "is deprecated")
				routed := accept != "application/cbor" && (r.Method != "PATCH" || sent == "application/strategic-merge-patch+json")
				if warned != routed {
					t.Errorf("%s of %s, accepting %q: warned %t, want %t", what, sent, accept, warned, routed)
				}
			}
		}
	}
}
