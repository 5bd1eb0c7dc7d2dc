// Package authz holds kanzen's authorization against kube-apiserver's: the
// same questions about the same roles, bindings, nodes and pods. testdata has
// what kube-apiserver answered; where it can be started it is asked anew.
package authz
