package bundle_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/bundle"
	v1 "github.com/kanzen-io/kanzen/internal/engine/bundle/v1"
)

// fork is a fork in which every write creates its object, and controllers work until they are let go.
type fork struct {
	bundle.Fork
	settle func(ctx context.Context) error
}

func (fork) Transport(user.Info) http.RoundTripper { return fork{} }

func (fork) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusCreated, Body: io.NopCloser(strings.NewReader(`{"metadata":{"name":"a","resourceVersion":"2"}}`)), Request: r}, nil
}

func (fork) Find(kind schema.GroupVersionKind) (schema.GroupVersionResource, bool, bool) {
	return kind.GroupVersion().WithResource("configmaps"), true, true
}

func (fork) CatchUp(context.Context) error      { return nil }
func (fork) Written() []bundle.Change           { return nil }
func (fork) Since() int64                       { return 1 }
func (fork) Adoptable(context.Context) error    { return nil }
func (fork) Stop() error                        { return nil }
func (f fork) Settle(ctx context.Context) error { return f.settle(ctx) }

// However many ask for consequences, controllers work for two of them at a time. Others wait, as long as they like.
func TestConsequencesAtATime(t *testing.T) {
	working, began := atomic.Int64{}, make(chan struct{}, 10)
	done := make(chan struct{})
	r := bundle.Resources(bundle.Deps{
		Fork: func(context.Context, bundle.ForkOptions) (bundle.Fork, error) {
			return fork{settle: func(context.Context) error {
				if n := working.Add(1); n > 2 {
					t.Errorf("%d work at a time", n)
				}
				began <- struct{}{}
				<-done
				working.Add(-1)
				return nil
			}}, nil
		},
		Audit: func(...*auditv1.Event) {},
	})[0]
	rehearse := func(ctx context.Context) error {
		b := &v1.Bundle{}
		b.Spec.Consequences = true
		i := v1.Item{}
		i.Object.Raw = []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`)
		b.Spec.Items = []v1.Item{i}
		_, err := r.Create(ctx, b, allowed, &metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	var asking sync.WaitGroup
	for range 6 {
		asking.Go(func() {
			if err := rehearse(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	<-began
	<-began
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := rehearse(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("who waits no more: %v", err)
	}
	close(done)
	asking.Wait()
}

func allowed(context.Context, engine.Object) error { return nil }
