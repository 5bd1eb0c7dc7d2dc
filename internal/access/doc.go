// Package access decides who sends a request (authn), what they may do (authz), and what is written down about it (audit). The chain
// calls all three; admission and the engine ask authz only for second objects.
package access
