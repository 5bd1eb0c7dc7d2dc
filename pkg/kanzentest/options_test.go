package kanzentest_test

import (
	"cmp"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

func TestControllersAndFlags(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t, kanzentest.Controllers(), kanzentest.Flags("--event-ttl=5m", "--disable-admission-plugins=ServiceAccount"))
	k := client(t, s.Config())
	if _, err := k.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("without controllers there is a service account: %v", err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if _, err := k.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Errorf("without the plugin: %v", err)
	}
	for _, wrong := range []kanzentest.Option{kanzentest.Flags("--none"), kanzentest.Controllers("none"), func(o *kanzentest.Options) { o.Listen = "nowhere" }} {
		if s, err := kanzentest.New(t.Context(), wrong); err == nil {
			t.Errorf("%v", s.Stop())
		}
	}
}

// A matrix of versions is a loop: each server has the kinds of its version and says which it is.
func TestVersion(t *testing.T) {
	for _, c := range []struct {
		option, variable string
		flags            []string
		want             string // emulated minor version; "": the newest
		bundles          bool   // certificates.k8s.io/v1 has clustertrustbundles
	}{
		{"", "", nil, "", true},
		{"1.36", "", nil, "36", false},
		{"v1.35.4", "1.36", nil, "35", false},
		{"", "v1.34", nil, "34", false},
		{"", "1.34", []string{"--emulated-version=1.36"}, "36", false},
	} {
		t.Setenv("KANZENTEST_VERSION", c.variable)
		s := kanzentest.Start(t, kanzentest.Version(c.option), kanzentest.Flags(c.flags...))
		d := client(t, s.Config()).Discovery()
		v, err := d.ServerVersion()
		if err != nil {
			t.Fatal(err)
		}
		if want := cmp.Or(c.want, v.Minor); v.EmulationMinor != want {
			t.Errorf("%+v: emulates %s", c, v.EmulationMinor)
		}
		list, err := d.ServerResourcesForGroupVersion("certificates.k8s.io/v1")
		if err != nil {
			t.Fatal(err)
		}
		has := slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "clustertrustbundles" })
		if has != c.bundles {
			t.Errorf("%+v: cluster trust bundles are served: %v", c, has)
		}
	}
	t.Setenv("KANZENTEST_VERSION", "")
	for _, wrong := range []string{"1.20", "1.99", "new"} {
		if s, err := kanzentest.New(t.Context(), kanzentest.Version(wrong)); err == nil {
			t.Errorf("%s: %v", wrong, s.Stop())
		}
	}
}
