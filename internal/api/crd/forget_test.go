package crd

import (
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

// TestForget deletes definitions whose objects were read by an earlier state of the definition, or that are asked for when they are gone:
// nothing is left of them, and a definition of the same name begins anew.
func TestForget(t *testing.T) {
	db := memory.New(clock.RealClock{})
	t.Cleanup(func() { _ = db.Close() })
	stored := store.NewCluster(db, store.Options{Clock: clock.RealClock{}})
	s := New(Config{Store: stored, Engine: engine.New(engine.Config{Store: stored, Clock: clock.RealClock{}}), Catalog: catalog.New(),
		Metrics: NewMetrics(prometheus.NewRegistry(), clock.RealClock{}), Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler)})
	rev := int64(0)
	put := func(uid types.UID, terminating bool) *catalog.Resource {
		t.Helper()
		rev++
		d, err := newFixed(Fixed{Definition: &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "example.com", Scope: apiextensionsv1.ClusterScoped,
				Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing", ListKind: "ThingList"},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}}},
		}}, rev)
		if err != nil {
			t.Fatal(err)
		}
		d.uid, d.terminating = uid, terminating
		s.put(d)
		return s.Catalog.Now().Resource(schema.GroupResource{Group: "example.com", Resource: "things"})
	}
	use := func(r *catalog.Resource) *engine.Endpoint {
		t.Helper()
		ep, err := r.Endpoint("v1")
		if err != nil {
			t.Fatal(err)
		}
		return ep
	}

	use(put("1", false))
	going := put("1", true) // nobody asks for it in this state
	s.remove("things.example.com")
	if left := stored.Views(); len(left) != 0 {
		t.Errorf("views of a deleted definition: %+v", left)
	}
	if _, err := going.Endpoint("v1"); !apierrors.IsNotFound(err) || len(stored.Views()) != 0 {
		t.Errorf("asked for when it is gone: %v, %d views", err, len(stored.Views()))
	}

	old := use(put("2", false))
	next := use(put("3", false)) // the deletion in between was not seen
	if next.View() == old.View() || len(stored.Views()) != 1 {
		t.Error("a new definition has the view of the old one")
	}
	put("3", true)
	s.remove("things.example.com")
	if left := stored.Views(); len(left) != 0 {
		t.Errorf("views of a definition that had replaced another: %+v", left)
	}
}
