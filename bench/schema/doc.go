// Package schema holds internal/object/schema against kube-apiserver's own code
// for custom resources: equal answers on random schemas and objects and on the
// manifests of real projects, and what both cost.
package schema
