// Package suite has twenty tests of an operator. A file of on-testkit or on-envtest beside it starts what they run on.
package suite

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	webv1 "example.com/sites/api/v1"
	webv1beta1 "example.com/sites/api/v1beta1"
	"example.com/sites/internal/controller"
	"example.com/sites/webhook"
)

var scheme = func() *runtime.Scheme {
	log.SetLogger(logr.Discard())
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, webv1.AddToScheme, webv1beta1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}()

// env is where a test runs: the administrator's client, and a namespace in which it is alone.
type env struct {
	client.Client
	namespace string
	user      func(t *testing.T, name string) client.Client // one who may read Sites
}

// tb is what is needed of a test.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Error(args ...any)
	Cleanup(func())
}

func must(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t tb, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

func (e *env) clientOf(t tb, cfg *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	must(t, err)
	return c
}

// run starts the operator: its controller and its webhooks.
func (e *env) run(t tb, ends interface{ Cleanup(func()) }, cfg *rest.Config, hooks ctrlwebhook.Server) {
	t.Helper()
	e.Client = e.clientOf(t, cfg)
	yes := true
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{Scheme: scheme, WebhookServer: hooks, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &yes}}) // there are several in this process
	must(t, err)
	must(t, webhook.Setup(mgr))
	must(t, (&controller.SiteReconciler{Client: mgr.GetClient(), Scheme: scheme}).SetupWithManager(mgr))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	ends.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func (e *env) site(name, title string) *webv1.Site {
	return &webv1.Site{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: e.namespace}, Spec: webv1.SiteSpec{Title: title}}
}

// created makes a Site.
func (e *env) created(t *testing.T, name string) *webv1.Site {
	t.Helper()
	s := e.site(name, "Hello")
	must(t, e.Create(context.Background(), s))
	return s
}

// settled makes a Site and waits until the controller is done with it.
func (e *env) settled(t *testing.T, name string) *webv1.Site {
	t.Helper()
	s := e.created(t, name)
	eventually(t, "the Site is ready", func() bool {
		return e.Get(context.Background(), client.ObjectKeyFromObject(s), s) == nil && meta.IsStatusConditionTrue(s.Status.Conditions, "Ready")
	})
	return s
}

func TestOperator(t *testing.T) {
	ctx := context.Background()
	for name, test := range map[string]func(t *testing.T, e *env){
		"a theme is set": func(t *testing.T, e *env) {
			if s := e.created(t, "a"); s.Spec.Theme != "plain" {
				t.Errorf("%+v", s.Spec)
			}
		},
		"a theme is kept": func(t *testing.T, e *env) {
			s := e.site("a", "Hello")
			s.Spec.Theme = "bold"
			must(t, e.Create(ctx, s))
			if s.Spec.Theme != "bold" {
				t.Errorf("%+v", s.Spec)
			}
		},
		"filler is refused": func(t *testing.T, e *env) {
			if err := e.Create(ctx, e.site("a", "Lorem ipsum")); err == nil || !strings.Contains(err.Error(), "write something of your own") {
				t.Error(err)
			}
		},
		"filler is refused in an update": func(t *testing.T, e *env) {
			s := e.settled(t, "a")
			s.Spec.Title = "Lorem ipsum"
			if err := e.Update(ctx, s); err == nil || !strings.Contains(err.Error(), "write something of your own") {
				t.Error(err)
			}
		},
		"a dry run stores nothing": func(t *testing.T, e *env) {
			s := e.site("a", "Hello")
			must(t, e.Create(ctx, s, client.DryRunAll))
			if err := e.Get(ctx, client.ObjectKeyFromObject(s), s); !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		},
		"the old version is read": func(t *testing.T, e *env) {
			old := &webv1beta1.Site{}
			must(t, e.Get(ctx, client.ObjectKeyFromObject(e.created(t, "a")), old))
			if old.Spec.Name != "Hello" {
				t.Errorf("%+v", old.Spec)
			}
		},
		"the old version is listed": func(t *testing.T, e *env) {
			e.created(t, "a")
			e.created(t, "b")
			old := &webv1beta1.SiteList{}
			must(t, e.List(ctx, old, client.InNamespace(e.namespace)))
			if len(old.Items) != 2 || old.Items[1].Spec.Name != "Hello" {
				t.Errorf("%+v", old.Items)
			}
		},
		"the old version is written": func(t *testing.T, e *env) {
			old := &webv1beta1.Site{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: e.namespace}, Spec: webv1beta1.SiteSpec{Name: "Once"}}
			must(t, e.Create(ctx, old))
			s := &webv1.Site{}
			must(t, e.Get(ctx, client.ObjectKeyFromObject(old), s))
			if s.Spec.Title != "Once" {
				t.Errorf("%+v", s.Spec)
			}
		},
		"a page is written": func(t *testing.T, e *env) {
			s := e.settled(t, "a")
			page := &corev1.ConfigMap{}
			must(t, e.Get(ctx, client.ObjectKeyFromObject(s), page))
			if page.Data["index.html"] != "<h1>Hello</h1>" || !metav1.IsControlledBy(page, s) {
				t.Errorf("%+v", page)
			}
		},
		"a page follows its Site": func(t *testing.T, e *env) {
			s := e.settled(t, "a")
			s.Spec.Title = "Again"
			must(t, e.Update(ctx, s))
			eventually(t, "the page follows", func() bool {
				page := &corev1.ConfigMap{}
				return e.Get(ctx, client.ObjectKeyFromObject(s), page) == nil && page.Data["index.html"] == "<h1>Again</h1>"
			})
		},
		"a page is repaired": func(t *testing.T, e *env) {
			s := e.settled(t, "a")
			must(t, e.Delete(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: e.namespace}}))
			eventually(t, "the page is there again", func() bool { return e.Get(ctx, client.ObjectKeyFromObject(s), &corev1.ConfigMap{}) == nil })
		},
		"an archive is left": func(t *testing.T, e *env) {
			s := e.settled(t, "a")
			must(t, e.Delete(ctx, s))
			eventually(t, "the Site goes", func() bool { return apierrors.IsNotFound(e.Get(ctx, client.ObjectKeyFromObject(s), s)) })
			must(t, e.Get(ctx, client.ObjectKey{Namespace: e.namespace, Name: "a-archive"}, &corev1.ConfigMap{}))
		},
		"a finalizer is added": func(t *testing.T, e *env) {
			if s := e.settled(t, "a"); len(s.Finalizers) != 1 || s.Finalizers[0] != controller.Finalizer {
				t.Errorf("%v", s.Finalizers)
			}
		},
		"the schema refuses": func(t *testing.T, e *env) {
			if err := e.Create(ctx, e.site("a", "")); !apierrors.IsInvalid(err) {
				t.Error(err)
			}
		},
		"the status is apart": func(t *testing.T, e *env) {
			s := e.settled(t, "a")
			s.Spec.Title = "by the status"
			must(t, e.Status().Update(ctx, s))
			must(t, e.Get(ctx, client.ObjectKeyFromObject(s), s))
			if s.Spec.Title != "Hello" {
				t.Errorf("%+v", s.Spec)
			}
		},
		"the generation counts specs": func(t *testing.T, e *env) {
			s := e.settled(t, "a")
			was := s.Generation
			s.Spec.Theme = "bold"
			must(t, e.Update(ctx, s))
			if s.Generation != was+1 {
				t.Errorf("%d after %d", s.Generation, was)
			}
		},
		"writers meet": func(t *testing.T, e *env) {
			s := e.settled(t, "a")
			other := s.DeepCopy()
			s.Spec.Theme = "bold"
			must(t, e.Update(ctx, s))
			other.Spec.Theme = "thin"
			if err := e.Update(ctx, other); !apierrors.IsConflict(err) {
				t.Error(err)
			}
		},
		"labels select": func(t *testing.T, e *env) {
			e.created(t, "a")
			s := e.site("b", "Hello")
			s.Labels = map[string]string{"team": "red"}
			must(t, e.Create(ctx, s))
			list := &webv1.SiteList{}
			must(t, e.List(ctx, list, client.InNamespace(e.namespace), client.MatchingLabels{"team": "red"}))
			if len(list.Items) != 1 || list.Items[0].Name != "b" {
				t.Errorf("%+v", list.Items)
			}
		},
		"a patch merges": func(t *testing.T, e *env) {
			s := e.settled(t, "a")
			must(t, e.Patch(ctx, s, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"theme":"bold"}}`))))
			if s.Spec.Title != "Hello" || s.Spec.Theme != "bold" {
				t.Errorf("%+v", s.Spec)
			}
		},
		"a reader reads": func(t *testing.T, e *env) {
			reader := e.user(t, "reader")
			s := e.created(t, "a")
			must(t, reader.Get(ctx, client.ObjectKeyFromObject(s), s))
			if err := reader.Delete(ctx, s); !apierrors.IsForbidden(err) {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}
