// Package goldens replays recorded requests against kanzen and compares its
// answers with those of kube-apiserver v1.37.2: codes, reasons, the fields of
// causes, resulting objects, tables, managedFields, warnings and media types.
// base holds valid manifests of every kind, testdata the cases, one a line;
// they are facts about kube-apiserver, and hold no sentence of a message, but
// marks of them, by which words are compared.
package goldens
