package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BenchmarkWrites has the writes of a cluster that the other benchmarks leave out. Bodies are made beforehand, but for a number.
func BenchmarkWrites(b *testing.B) {
	const core, slices = "/api/v1/namespaces/default/", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
	put := func(b *testing.B, s *server, path string, obj any) {
		do(b, s, "POST", path, "application/json", "", encoded(b, obj), 201)
	}
	var updated corev1.Pod
	for _, c := range []struct {
		name   string
		before func(b *testing.B, s *server)
		write  func(b *testing.B, s *server, n string)
	}{
		{"NodeStatus", func(b *testing.B, s *server) { put(b, s, "/api/v1/nodes", kubeletNode()) }, func(b *testing.B, s *server, n string) {
			do(b, s, "PATCH", "/api/v1/nodes/n/status", "application/strategic-merge-patch+json", "", []byte(`{"status":{"conditions":[{"type":"Ready","status":"True","message":"`+n+`"}]}}`), 200)
		}},
		{"CreateEvent", nil, func(b *testing.B, s *server, n string) {
			do(b, s, "POST", core+"events", "application/json", "", []byte(`{"metadata":{"name":"p.`+n+`"},"involvedObject":{"kind":"Pod","namespace":"default","name":"p","uid":"0123","apiVersion":"v1"},
				"reason":"Pulled","message":"Container image is present","source":{"component":"kubelet","host":"n"},"firstTimestamp":"2026-01-01T00:00:00Z","lastTimestamp":"2026-01-01T00:00:00Z","count":1,"type":"Normal"}`), 201)
		}},
		{"EndpointSlice", func(b *testing.B, s *server) { put(b, s, slices, endpoints("0")) }, func(b *testing.B, s *server, n string) {
			do(b, s, "PUT", slices+"/s", "application/json", "", encoded(b, endpoints(n)), 200)
		}},
		{"CreateConfigMap", nil, func(b *testing.B, s *server, n string) {
			do(b, s, "POST", core+"configmaps", "application/json", "", []byte(`{"metadata":{"name":"m`+n+`","labels":{"app":"web"}},"data":{"a":"some text","b":"more text"}}`), 201)
		}},
		{"UpdatePod", func(b *testing.B, s *server) {
			if err := json.Unmarshal(do(b, s, "POST", pods, "application/json", "", podJSON(b, "p"), 201), &updated); err != nil {
				b.Fatal(err)
			}
			updated.ResourceVersion = ""
		}, func(b *testing.B, s *server, n string) {
			updated.Labels["n"] = n
			do(b, s, "PUT", pods+"/p", "application/json", "", encoded(b, &updated), 200)
		}},
		{"CreateAndDeleteConfigMap", nil, func(b *testing.B, s *server, n string) {
			do(b, s, "POST", core+"configmaps", "application/json", "", []byte(`{"metadata":{"name":"m`+n+`"},"data":{"a":"some text"}}`), 201)
			do(b, s, "DELETE", core+"configmaps/m"+n, "", "", nil, 200)
		}},
		{"CreateAndBindPod", func(b *testing.B, s *server) { put(b, s, "/api/v1/nodes", kubeletNode()) }, func(b *testing.B, s *server, n string) {
			do(b, s, "POST", pods, "application/json", "", encoded(b, pod("p"+n)), 201)
			do(b, s, "POST", pods+"/p"+n+"/binding", "application/json", "", []byte(`{"metadata":{"name":"p`+n+`"},"target":{"kind":"Node","name":"n"}}`), 201)
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := start(b)
			withAccount(b, s)
			if c.before != nil {
				c.before(b, s)
			}
			b.ReportAllocs()
			before, n := cpu(b), 0
			for b.Loop() {
				n++
				c.write(b, s, fmt.Sprint(n))
			}
			b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

func encoded(b *testing.B, obj any) []byte {
	out, err := json.Marshal(obj)
	if err != nil {
		b.Fatal(err)
	}
	return out
}

// kubeletNode is a node with the images of fifty programs.
func kubeletNode() *corev1.Node {
	amounts := corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("32Gi"), "pods": resource.MustParse("110"), "ephemeral-storage": resource.MustParse("100Gi")}
	n := &corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Status: corev1.NodeStatus{Capacity: amounts, Allocatable: amounts}}
	for _, t := range []corev1.NodeConditionType{"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: t, Status: "False", Reason: "Kubelet", Message: "kubelet has enough"})
	}
	for i := range 50 {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{SizeBytes: 1 << 25,
			Names: []string{fmt.Sprintf("registry.example.com/team/app%d@sha256:%s", i, strings.Repeat("0", 64)), fmt.Sprintf("registry.example.com/team/app%d:v1", i)}})
	}
	return n
}

// endpoints is an EndpointSlice of a hundred endpoints.
func endpoints(n string) *discoveryv1.EndpointSlice {
	port, ready, on := int32(80), true, "n"
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "s", Annotations: map[string]string{"n": n}}, AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Port: &port}}}
	for i := range 100 {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.0.0.%d", i+1)}, NodeName: &on, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: fmt.Sprintf("p%d", i), UID: "0123"}})
	}
	return s
}
