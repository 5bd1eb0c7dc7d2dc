package authn

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	rewrite(t, path, content)
	return path
}

// rewrite replaces a file as editors do: whole.
func rewrite(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// with is a client that has a token and nothing else.
func with(s *kanzentest.Server, token string) *kubernetes.Clientset {
	return kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://kanzen.in-process", Transport: s.Transport(nil), BearerToken: token, QPS: -1})
}

// whoami is whom a client is known as.
func whoami(ctx context.Context, c *kubernetes.Clientset) (authenticationv1.UserInfo, error) {
	r, err := c.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	return r.Status.UserInfo, nil
}

// refusedFile waits until the server has looked at a changed file and refused it.
func refusedFile(t testing.TB, s *kanzentest.Server, kind string) {
	t.Helper()
	metric := "apiserver_" + kind + "_config_controller_automatic_reloads_total{"
	within(t, 15*time.Second, "the file is refused", func() bool {
		text, err := kubernetes.NewForConfigOrDie(s.Config()).RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, metric) && strings.Contains(line, `status="failure"`) {
				return true
			}
		}
		return false
	})
}

// within polls until f is true.
func within(t testing.TB, limit time.Duration, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
