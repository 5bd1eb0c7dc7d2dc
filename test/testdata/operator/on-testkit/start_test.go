package suite

import (
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/kanzen-io/kanzen/testkit"
)

// start gives each test a control plane of its own, with the operator.
func start(t *testing.T) *env {
	t.Helper()
	s := testkit.Start(t,
		testkit.Install(testkit.Path("../config/crd/bases")),
		testkit.Webhooks(nil, testkit.Path("../config/webhook/manifests.yaml")), testkit.Conversion("sites.web.example.com"))
	e := &env{namespace: "default"}
	e.user = func(t *testing.T, name string) client.Client {
		return e.clientOf(t, testkit.Config[rest.Config](s.User(t, name, "get,list sites.web.example.com")))
	}
	e.run(t, t, testkit.Config[rest.Config](s), testkit.WebhookServer[healthz.Checker](s))
	return e
}
