// Package policy checks writes against ValidatingAdmissionPolicies and lets
// MutatingAdmissionPolicies change them. Both consist of CEL expressions
// (internal/object/cel), and bindings put them in force, optionally with parameters.
//
// Policies and bindings are read from their views, and combined anew after a
// change of either (set.go); unchanged policies stay compiled. A write that
// matches no policy's rules costs a map lookup (internal/engine/admission/match). The
// variables of expressions are made once for all of them
// (internal/engine/admission/expr).
//
// The package also finds type errors in a policy's expressions, for its status
// (typecheck.go).
package policy
