// Package core is the API group without a name, core/v1, and events.k8s.io/v1,
// which serves the same events under other field names. It says what each kind
// looks like, what a write to it may do, and what is wrong with it; storing and
// serving is the engine's part.
//
// One file holds one kind: its Resource, its defaults, what an update carries
// over, its validation and warnings. Pods and services, which have the most
// rules, have several (pod_*.go, service_*.go).
package core
