// Package crd serves custom resources: it builds Resources from CustomResourceDefinitions, and the engine serves them
// like all others.
//
// An unused definition costs its stored bytes and an index entry (Server.definitions). What is needed to serve it is
// created on first use: an endpoint for each requested version (serving), and a compiled schema (package schema) for
// each version whose objects are read or written.
//
// A custom resource is stored as JSON in the definition's storage version, as in kube-apiserver. Each served version is
// a separate Resource whose hub is that version: validation, admission and field management see objects in the version
// of the request, and the codec converts between that and the stored version.
package crd
