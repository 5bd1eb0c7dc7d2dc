package sites

import (
	"flag"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	upstream "sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kanzen-io/kanzen/pkg/envtest"
	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

var (
	starts = flag.Int("starts", 0, "measure as many tests with a server each")
	assets = flag.String("assets", "", "directory of kube-apiserver, etcd and kubectl, to measure controller-runtime's envtest too")
)

// TestStarts measures tests with a server each, one after the other: start, write and read an object, stop.
func TestStarts(t *testing.T) {
	if *starts == 0 {
		t.Skip("needs -starts")
	}
	use := func(t *testing.T, c *rest.Config) {
		t.Helper()
		k := kubernetes.NewForConfigOrDie(c)
		if _, err := k.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := k.CoreV1().ConfigMaps("default").Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	type environment interface {
		Start() (*rest.Config, error)
		Stop() error
	}
	with := func(e environment) func(t *testing.T) {
		return func(t *testing.T) {
			c, err := e.Start()
			if err != nil {
				t.Fatal(err)
			}
			use(t, c)
			if err := e.Stop(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, way := range []struct {
		name string
		test func(t *testing.T)
		skip bool
	}{
		{"kanzentest", func(t *testing.T) { use(t, kanzentest.Start(t).Config()) }, false},
		{"kanzen's envtest", func(t *testing.T) { with(&envtest.Environment{})(t) }, false},
		{"controller-runtime's envtest", func(t *testing.T) { with(&upstream.Environment{BinaryAssetsDirectory: *assets})(t) }, *assets == ""},
	} {
		if way.skip {
			continue
		}
		began := time.Now()
		for range *starts {
			t.Run(way.name, way.test)
		}
		took := time.Since(began)
		t.Logf("%s: %d tests in %v, %v each", way.name, *starts, took.Round(time.Millisecond), (took / time.Duration(*starts)).Round(time.Millisecond/10))
	}
}
