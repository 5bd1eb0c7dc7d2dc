//go:build peer

// Package peer pins the modules that the peer (kube-apiserver and its
// companions, version 1.37.2) is built from. See the Makefile beside it.
package peer

import (
	_ "k8s.io/kubectl/pkg/cmd"
	_ "k8s.io/kubernetes/cmd/kube-apiserver/app"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	_ "k8s.io/kubernetes/cmd/kube-scheduler/app"
)
