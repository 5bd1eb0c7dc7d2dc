package kanzen

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/testcontainers/testcontainers-go"
)

// written is a kubeconfig as kanzen writes it.
const written = `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: Y2E=
    server: https://127.0.0.1:6443/planes/team-a
  name: kanzen
contexts:
- context: {cluster: kanzen, user: kubernetes-admin}
  name: kubernetes-admin@kanzen
current-context: kubernetes-admin@kanzen
kind: Config
users:
- name: kubernetes-admin
  user: {client-certificate-data: Y2VydA==, client-key-data: a2V5}
`

// file is a kubeconfig in the place of a container.
type file string

func (f file) Kubeconfig(context.Context) ([]byte, error) { return moved([]byte(f), "engine:32768") }

func TestConfig(t *testing.T) {
	c, err := Config[restConfig](t.Context(), file(written))
	if err != nil {
		t.Fatal(err)
	}
	if c.Host != "https://engine:32768/planes/team-a" || c.ServerName != "localhost" || string(c.CAData) != "ca" || string(c.CertData) != "cert" || string(c.KeyData) != "key" || c.QPS != -1 {
		t.Errorf("%+v", c)
	}
	if c, err := Config[struct{ Host string }](t.Context(), file(written)); err == nil || !strings.Contains(err.Error(), "no rest.Config") {
		t.Errorf("%v, %v", c, err)
	}
	for _, broken := range []string{"", "{", "clusters: []", "clusters: [{cluster: {}}]", strings.Replace(written, "users:", "others:", 1)} {
		if c, err := Config[restConfig](t.Context(), file(broken)); err == nil {
			t.Errorf("%q: %+v", broken, c)
		}
	}
}

// TestMoved keeps all of a kubeconfig but the server.
func TestMoved(t *testing.T) {
	got, err := moved([]byte(written), "engine:32768")
	if err != nil {
		t.Fatal(err)
	}
	back, err := moved(got, "127.0.0.1:6443")
	if err != nil {
		t.Fatal(err)
	}
	same, err := moved([]byte(written), "127.0.0.1:6443")
	if err != nil || string(back) != string(same) || string(got) == string(back) {
		t.Errorf("%v\n%s\n%s", err, got, back)
	}
}

// TestOptions looks at what an engine would be asked for.
func TestOptions(t *testing.T) {
	var r testcontainers.GenericContainerRequest
	for _, o := range append(defaults(), WithPlanes(), WithFlags("--event-ttl=1m", "--profiling")) {
		if err := o.Customize(&r); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"serve", "--bind-address=0.0.0.0", "--planes", "--event-ttl=1m", "--profiling"}; !slices.Equal(r.Cmd, want) {
		t.Errorf("%q, want %q", r.Cmd, want)
	}
	if !slices.Equal(r.ExposedPorts, []string{"6443/tcp"}) {
		t.Errorf("%q", r.ExposedPorts)
	}
}
