package crd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
)

func hookOf(timeout time.Duration, answer func(ctx context.Context, r *apiextensionsv1.ConversionReview) error) *webhook {
	return &webhook{
		metrics: NewMetrics(prometheus.NewRegistry(), clock.RealClock{}),
		config:  &apiextensionsv1.WebhookConversion{ConversionReviewVersions: []string{"v1"}}, timeout: timeout,
		call: func(ctx context.Context, _ *apiextensionsv1.WebhookClientConfig, request, response any) error {
			out := response.(*apiextensionsv1.ConversionReview)
			*out = *request.(*apiextensionsv1.ConversionReview)
			return answer(ctx, out)
		},
	}
}

func objectsOf(n, size int) (out []object) {
	for i := range n {
		out = append(out, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing",
			"metadata": map[string]any{"name": fmt.Sprint("t", i)}, "text": strings.Repeat("x", size)}})
	}
	return out
}

// honest converts by changing the version.
func honest(_ context.Context, r *apiextensionsv1.ConversionReview) error {
	r.Response = &apiextensionsv1.ConversionResponse{UID: r.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, o := range r.Request.Objects {
		raw := strings.Replace(string(o.Raw), "example.com/v1", r.Request.DesiredAPIVersion, 1)
		r.Response.ConvertedObjects = append(r.Response.ConvertedObjects, runtime.RawExtension{Raw: []byte(raw)})
	}
	return nil
}

// A call of a webhook that does not respond ends at the timeout.
func TestWebhookHangs(t *testing.T) {
	w := hookOf(time.Millisecond, func(ctx context.Context, _ *apiextensionsv1.ConversionReview) error {
		<-ctx.Done()
		return ctx.Err()
	})
	_, err := w.convert(t.Context(), objectsOf(1, 1), "example.com/v2")
	if err == nil || !strings.Contains(err.Error(), "conversion webhook for example.com/v1, Kind=Thing failed: context deadline exceeded") {
		t.Errorf("got %v", err)
	}
}

// Few objects take one call, many take several, each of bounded size; the order is kept.
func TestWebhookBatches(t *testing.T) {
	for _, c := range []struct{ objects, size, calls int }{{1000, 100, 1}, {30, maxBatch / 10, 4}, {2, 2 * maxBatch, 2}} {
		calls := 0
		w := hookOf(time.Minute, func(ctx context.Context, r *apiextensionsv1.ConversionReview) error {
			calls++
			return honest(ctx, r)
		})
		out, err := w.convert(t.Context(), objectsOf(c.objects, c.size), "example.com/v2")
		if err != nil || len(out) != c.objects || calls != c.calls {
			t.Errorf("%d objects of %d bytes: %d after %d calls, want %d; %v", c.objects, c.size, len(out), calls, c.calls, err)
		}
		for i, o := range out {
			if o.GetName() != fmt.Sprint("t", i) || o.GetAPIVersion() != "example.com/v2" {
				t.Fatalf("object %d is %s of %s", i, o.GetName(), o.GetAPIVersion())
			}
		}
	}
	// If one call fails, the whole conversion fails.
	n := 0
	w := hookOf(time.Minute, func(ctx context.Context, r *apiextensionsv1.ConversionReview) error {
		if n++; n == 2 {
			return errors.New("enough")
		}
		return honest(ctx, r)
	})
	if _, err := w.convert(t.Context(), objectsOf(2, 2*maxBatch), "example.com/v2"); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("got %v", err)
	}
}
