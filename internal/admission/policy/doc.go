// Package policy holds writes to ValidatingAdmissionPolicies and lets
// MutatingAdmissionPolicies change them. Both are CEL expressions (internal/cel)
// that bindings put in force, perhaps with parameters.
//
// Policies and bindings are read off their views on every write and put
// together anew when either has changed (set.go); policies that stay the same
// stay compiled. A write that no policy's rules mean costs a look into a map
// (internal/admission/match). What expressions see of a write is made once for
// all of them (internal/admission/expr).
//
// Beside refusing writes the package finds out what is wrong with the types in
// a policy's expressions, for its status (typecheck.go).
package policy
