// Package sites is a project in the shape in which kubebuilder makes one: an API type with a second version, a controller
// with a finalizer and owned objects, webhooks for defaults, validation and conversion, and suites that start an envtest
// Environment. It shows that such suites pass with the import of either envtest.
package sites
