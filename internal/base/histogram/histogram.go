// Package histogram has histograms with labels (Vec), and makes histograms native, if they are registered where they are to be (the gate
// NativeHistograms): beside the buckets that they name they have exponential ones, which clients get that ask for protobuf.
//
// Those that kube-apiserver makes before it knows its gates are not native there, and so not here: of admission, of work queues, of
// requests to webhooks and their conversions, of CEL, of dials and of tokens in the cache.
package histogram

import "github.com/prometheus/client_golang/prometheus"

// As in kube-apiserver: each bucket ends a tenth after it begins, or later where there would be too many.
const growth, most = 1.1, 160

// Native is a registry whose histograms are native.
type Native struct{ prometheus.Registerer }

// Registry returns a registry whose histograms are native, or r itself.
func Registry(r prometheus.Registerer, native bool) prometheus.Registerer {
	if native {
		return Native{r}
	}
	return r
}

// Opts completes the options of a histogram that is registered with r.
func Opts(r prometheus.Registerer, o prometheus.HistogramOpts) prometheus.HistogramOpts {
	if _, native := r.(Native); native {
		o.NativeHistogramBucketFactor, o.NativeHistogramMaxBucketNumber = growth, most
	}
	return o
}
