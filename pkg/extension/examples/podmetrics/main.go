// Podmetrics is the metrics API of a cluster (kubectl top pods) on a source in memory. A real one would ask kubelets, as
// this one asks the Go runtime.
package main

import (
	"context"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/pkg/extension"
)

// PodMetrics is what a pod uses, as k8s.io/metrics has it.
type PodMetrics struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Timestamp         metav1.Time     `json:"timestamp" doc:"When the interval ended in which the usage was measured."`
	Window            metav1.Duration `json:"window" doc:"How long the interval was."`
	Containers        []Container     `json:"containers" doc:"What the containers of the pod use."`
}

// Container is what a container uses.
type Container struct {
	Name  string              `json:"name"`
	Usage corev1.ResourceList `json:"usage" doc:"CPU and memory."`
}

// self measures this process, as if it were a pod.
func self(context.Context) ([]*PodMetrics, error) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return []*PodMetrics{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "podmetrics", Labels: map[string]string{"app": "podmetrics"}},
		Timestamp:  metav1.Now(), Window: metav1.Duration{Duration: time.Second},
		Containers: []Container{{Name: "self", Usage: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(runtime.NumGoroutine()), resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(int64(m.Sys), resource.BinarySI),
		}}},
	}}, nil
}

func server() *extension.Server {
	s := &extension.Server{Group: "metrics.k8s.io", Version: "v1beta1"}
	extension.Add(s, extension.Kind[PodMetrics]{
		Plural: "pods", Doc: "What a pod uses.", Functions: &extension.Functions[PodMetrics]{List: self, MaxAge: time.Second},
	})
	return s
}

func main() { extension.Main(server()) }
