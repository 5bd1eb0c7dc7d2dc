package kanzentest_test

import (
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// TestUsers has each form of a role, and the ways to reach the server as a user.
func TestUsers(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t, kanzentest.Listen())
	for _, c := range []struct {
		role            string
		mayList, mayGet bool // configmaps of default, pods of kube-system
	}{
		{"", false, false},
		{"view", true, true},
		{"view in default", true, false},
		{"get,list configmaps,pods", true, true},
		{"* configmaps in default", true, false},
		{"list deployments.apps", false, false},
	} {
		var roles []string
		if c.role != "" {
			roles = []string{c.role}
		}
		u := s.User(t, "user-"+strings.NewReplacer(" ", "-", "*", "all", ",", "-", ".", "-").Replace(c.role), roles...)
		socket, err := u.SocketConfig()
		if err != nil {
			t.Fatal(err)
		}
		kubeconfig, err := u.Kubeconfig()
		if err != nil {
			t.Fatal(err)
		}
		fromFile, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		for way, cfg := range map[string]*rest.Config{"in process": u.Config(), "socket": socket, "kubeconfig": fromFile} {
			k := client(t, cfg)
			_, err := k.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
			if may := err == nil; may != c.mayList || err != nil && !apierrors.IsForbidden(err) {
				t.Errorf("%q, %s: list configmaps: %v", c.role, way, err)
			}
			_, err = k.CoreV1().Pods("kube-system").List(t.Context(), metav1.ListOptions{})
			if may := err == nil; may != c.mayGet || err != nil && !apierrors.IsForbidden(err) {
				t.Errorf("%q, %s: list pods: %v", c.role, way, err)
			}
			who, err := k.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
			if err != nil || who.Status.UserInfo.Username != u.Name || strings.Join(who.Status.UserInfo.Groups, ",") != "system:authenticated" {
				t.Errorf("%q, %s: %v, %v", c.role, way, who, err)
			}
		}
	}
	for role, want := range map[string]string{
		"three words here":      `write "ROLE"`,
		"frobnicate":            `there is no role "frobnicate"; the server has admin, cluster-admin, edit, view`,
		"frobnicate in default": `there is no role "frobnicate"`,
		"get pods in nowhere":   "nowhere",
	} {
		if _, err := s.AddUser(t.Context(), "x", nil, role); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "kanzentest: kanzentest:") {
			t.Errorf("%q: %v", role, err)
		}
	}
}

func TestUsersWithoutSocket(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t)
	if path := s.Kubeconfig(); path != "" {
		t.Errorf("without a socket there is a kubeconfig: %s", path)
	}
	u, err := s.AddUser(t.Context(), "system:serviceaccount:team:bot", []string{"dev"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := u.Kubeconfig(); err == nil || !strings.Contains(err.Error(), "Listen") {
		t.Errorf("kubeconfig: %v", err)
	}
	who, err := client(t, u.Config()).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || strings.Join(who.Status.UserInfo.Groups, ",") != "dev,system:serviceaccounts,system:serviceaccounts:team,system:authenticated" {
		t.Errorf("%v, %v", who, err)
	}
	anonymous := client(t, s.ConfigFor("system:anonymous"))
	if _, err := anonymous.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("anonymous: %v", err)
	}
}
