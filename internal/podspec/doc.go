// Package podspec knows what every kind that carries a pod has in common:
// pods, pod templates and the workloads of apps and batch. It fills in
// defaults, drops what this server does not support, reports what is wrong
// with a pod spec and what is merely unwise.
//
// It judges the spec alone. What only holds for pods themselves (status,
// immutability of updates, resizing, ephemeral containers) is with the pod
// kind; selectors and replica counts are with the kinds that have them.
package podspec
