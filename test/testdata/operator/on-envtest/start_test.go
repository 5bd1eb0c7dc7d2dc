package suite

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// first takes what is told about the start of the environment, which belongs to no test.
type first struct{ cleanup []func() }

func (f *first) Helper()                           {}
func (f *first) Cleanup(end func())                { f.cleanup = append(f.cleanup, end) }
func (f *first) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (f *first) Error(args ...any)                 { fmt.Fprintln(os.Stderr, args...) }
func (f *first) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

var (
	once   sync.Once
	common *env
	tests  first
)

func TestMain(m *testing.M) {
	code := m.Run()
	for n := len(tests.cleanup) - 1; n >= 0; n-- {
		tests.cleanup[n]()
	}
	os.Exit(code)
}

// start gives each test a namespace of the one environment, in which the operator runs.
func start(t *testing.T) *env {
	t.Helper()
	once.Do(func() {
		testEnv := &envtest.Environment{
			Scheme: scheme, CRDDirectoryPaths: []string{"../config/crd/bases"}, ErrorIfCRDPathMissing: true,
			WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{"../config/webhook/manifests.yaml"}},
		}
		cfg, err := testEnv.Start()
		must(&tests, err)
		tests.Cleanup(func() { must(&tests, testEnv.Stop()) })
		common = &env{}
		common.user = func(t *testing.T, name string) client.Client {
			u, err := testEnv.AddUser(envtest.User{Name: name}, nil)
			must(t, err)
			must(t, common.Create(context.Background(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
				{Verbs: []string{"get", "list"}, APIGroups: []string{"web.example.com"}, Resources: []string{"sites"}}}}))
			must(t, common.Create(context.Background(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
				Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}}))
			return common.clientOf(t, u.Config())
		}
		o := testEnv.WebhookInstallOptions
		common.run(&tests, &tests, cfg, webhook.NewServer(webhook.Options{Host: o.LocalServingHost, Port: o.LocalServingPort, CertDir: o.LocalServingCertDir}))
		eventually(t, "the webhooks are served", func() bool {
			c, err := net.DialTimeout("tcp", fmt.Sprintf("%s:%d", o.LocalServingHost, o.LocalServingPort), time.Second)
			if err == nil {
				_ = c.Close()
			}
			return err == nil
		})
	})
	own := *common
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	must(t, own.Create(context.Background(), ns))
	own.namespace = ns.Name
	return &own
}
