// Package core is the API group without a name, core/v1, and events.k8s.io/v1, which serves the same events with other
// field names. It defines each kind, prepares writes and validates them; the engine stores and serves the objects.
//
// Each file contains one kind: its Resource, defaults, update preparation, validation and warnings. Pods and services,
// which have the most rules, have several files (pod_*.go, service_*.go).
package core
