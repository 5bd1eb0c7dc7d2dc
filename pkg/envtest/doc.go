// Package envtest takes the place of sigs.k8s.io/controller-runtime/pkg/envtest: the same Environment, on a kanzen server
// in the test's own process. A suite moves over by its import:
//
//	import "github.com/kanzen-io/kanzen/pkg/envtest" // was sigs.k8s.io/controller-runtime/pkg/envtest
//
// There are no binaries to download, and fields that name them are accepted and not used. Unlike there, controllers run:
// a deleted namespace goes away, dependents are collected, namespaces have their service accounts. As there, the admission
// plugin ServiceAccount is off, so that pods are stored as they were sent.
//
// Environment.Options has what package kanzentest offers beside, and Environment.Server the server.
package envtest
