package crd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestConversionMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	answers := map[string]func(response *apiextensionsv1.ConversionReview) error{
		callFailed: func(*apiextensionsv1.ConversionReview) error { return errors.New("no route") },
		malformed:  func(*apiextensionsv1.ConversionReview) error { return nil },
	}
	m := NewMetrics(registry, clocktesting.NewFakePassiveClock(time.Now()))
	for failure, answer := range answers {
		w := &webhook{crd: "things.example.com", metrics: m, timeout: time.Minute,
			config: &apiextensionsv1.WebhookConversion{ConversionReviewVersions: []string{"v1"}},
			call: func(_ context.Context, _ *apiextensionsv1.WebhookClientConfig, _, response any) error {
				return answer(response.(*apiextensionsv1.ConversionReview))
			}}
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing"}}
		if _, err := w.convert(t.Context(), []object{obj}, "example.com/v2"); err == nil {
			t.Errorf("%s: no error", failure)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]float64{}
	for _, f := range families {
		for _, s := range f.Metric {
			switch labels := s.Label; f.GetName() {
			case "apiserver_conversion_webhook_request_total":
				counted[labels[0].GetValue()] = s.Counter.GetValue() // failure_type
			case "apiserver_crd_conversion_webhook_duration_seconds":
				counted["all from "+labels[1].GetValue()+" to "+labels[3].GetValue()] = float64(s.Histogram.GetSampleCount())
			}
		}
	}
	for name, want := range map[string]float64{callFailed: 1, malformed: 1, "all from v1 to v2": 2} {
		if counted[name] != want {
			t.Errorf("%s: %v, not %v, of %v", name, counted[name], want, counted)
		}
	}
}
