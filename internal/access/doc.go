// Package access decides who sends a request (authn) and what they may do (authz), and records it (audit). The chain calls all
// three. Admission and the engine ask authz only about further objects that a request concerns.
package access
