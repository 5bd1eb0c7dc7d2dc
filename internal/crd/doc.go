// Package crd is the API Extensions Server: it makes Resources of
// CustomResourceDefinitions, which the engine serves as it serves all others.
//
// A definition that nobody uses costs its stored bytes and an entry in an
// index (Server.definitions). What serving it takes is made on first use: an
// endpoint for each version that is asked for (serving), and for each version
// whose objects are read or written a compiled schema (package schema).
//
// A custom resource is stored as JSON of the definition's storage version, as
// kube-apiserver stores it. Each served version is a Resource of its own whose
// hub is that version: rules, admission and field management see objects in
// the version of the request, and the codec converts between that and what is
// stored.
package crd
