package test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/test/peer"
)

// TestCorruptObjects asks kanzen and kube-apiserver, on one etcd, for secrets that cannot be decrypted or decoded, with the
// feature gate that allows to delete them and without it.
func TestCorruptObjects(t *testing.T) {
	t.Parallel()
	for _, gate := range []bool{false, true} {
		t.Run(fmt.Sprint("gate ", gate), func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "encryption.yaml")
			must(t, os.WriteFile(file, []byte("kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources: [{resources: [secrets], providers: [{aesgcm: {keys: ["+
				encryptionKey("k1")+"]}}, {identity: {}}]}]\n"), 0o600))
			etcd := peer.Etcd(t)
			args := []string{"--encryption-provider-config=" + file, "--disable-admission-plugins=ServiceAccount", fmt.Sprintf("--feature-gates=AllowUnsafeMalformedObjectDeletion=%v", gate)}
			theirs := newSealingServer(t, peer.StartOn(t, etcd, args...), etcd)
			k := serve(t, filepath.Join(t.TempDir(), "kanzen"), append(args, "--etcd-servers="+etcd, "--controllers=")...)
			own := newSealingServer(t, k.config(), etcd)
			client := k.client()
			_, err := client.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "good"}}, metav1.CreateOptions{})
			must(t, err)
			roles, err := client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "deleter"}, Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"delete"}}}}, metav1.CreateOptions{})
			must(t, err)
			_, err = client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "deleter"},
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: roles.Name}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "ask0"}}}, metav1.CreateOptions{})
			must(t, err)
			damage := func(name, value string) {
				_, err := own.etcd.Put(t.Context(), "/registry/secrets/default/"+name, value)
				must(t, err)
			}
			damaged := map[string]string{"sealed": "k8s:enc:aesgcm:v1:k1:0123456789012345678901234567890123456789", "other": "k8s:enc:aesgcm:v1:k9:0123456789012345678901234567890123456789"}
			for name, value := range damaged {
				damage(name, value)
			}
			const path = "/api/v1/namespaces/default/secrets"
			option := `{"kind":"DeleteOptions","apiVersion":"v1","ignoreStoreReadErrorWithClusterBreakingPotential":true`
			for _, c := range []struct{ method, path, body, user string }{
				{"GET", path + "/sealed", "", ""},
				{"GET", path + "/other", "", ""},
				{"GET", path + "/good", "", ""},
				{"GET", path, "", ""},
				{"GET", path + "?limit=1", "", ""},
				{"GET", path + "?fieldSelector=metadata.name=good", "", ""},
				{"PUT", path + "/sealed", `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"sealed"}}`, ""},
				{"POST", path, `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"sealed"}}`, ""},
				{"DELETE", path + "/sealed", "", ""},
				{"DELETE", path, option + "}", ""},
				{"DELETE", path + "/sealed", option + `,"dryRun":["All"]}`, ""},
				{"DELETE", path + "/sealed", option + `,"gracePeriodSeconds":1,"preconditions":{"uid":"a"}}`, ""},
				{"DELETE", path + "/sealed", option + "}", "ask0"},
				{"DELETE", path + "/none", option + "}", ""},
				{"DELETE", path + "/good", option + "}", ""},
				{"DELETE", path + "/sealed", option + "}", ""},
				{"GET", path + "/sealed", "", ""},
				{"DELETE", path + "/other", option + "}", ""},
			} {
				ask := func(s *sealingServer) string {
					config := rest.CopyConfig(s.config)
					if c.user != "" {
						config.Impersonate.UserName = c.user
					}
					h, err := rest.HTTPClientFor(config)
					must(t, err)
					req, err := http.NewRequestWithContext(t.Context(), c.method, s.config.Host+c.path, strings.NewReader(c.body))
					must(t, err)
					req.Header.Set("Content-Type", "application/json")
					resp, err := h.Do(req)
					must(t, err)
					defer resp.Body.Close()
					b, err := io.ReadAll(resp.Body)
					must(t, err)
					return fmt.Sprint(resp.StatusCode, " ", string(b))
				}
				if c.method == "DELETE" && c.path == path && !gate || c.method == "DELETE" && strings.HasSuffix(c.path, "/good") && !gate {
					continue // without the gate this is an ordinary deletion
				}
				is := ask(own)
				for name, value := range damaged { // as it was, for the other
					if c.method == "DELETE" && strings.HasPrefix(is, "200 ") && strings.HasSuffix(c.path, "/"+name) {
						damage(name, value)
					}
				}
				if want := ask(theirs); !sameAnswer(is, want) {
					t.Errorf("%s %s %s (%s)\nis   %s\nwant %s", c.method, c.path, c.body, c.user, is, want)
				}
			}
			if !gate {
				return
			}
			within(t, 60*time.Second, "the rest is listed", func(context.Context) bool {
				l, err := client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
				return err == nil && len(l.Items) == 1
			})
		})
	}
}

// sameAnswer leaves out what differs from server to server: where the order of messages is random.
func sameAnswer(a, b string) bool {
	sorted := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	return sorted(a) == sorted(b)
}
