// Package podspec implements what all kinds with a pod spec share: pods, pod templates and the workloads of apps and
// batch. It sets defaults, drops fields of disabled features, validates pod specs and returns warnings.
//
// It looks only at the spec. Rules only for pods (status, immutable fields, resizing, ephemeral containers) are with
// the pod kind; selectors and replica counts are with the kinds that have them.
package podspec
