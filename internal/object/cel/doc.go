// Package cel compiles and evaluates the CEL expressions of webhooks and
// policies.
//
// An expression is compiled once for its text and scope, and shared by all its
// users: a Compiler keeps only the programs in use. Evaluation is bounded
// twice, by the environment's cost limit of one expression and by the budget of
// a Run, both in the units of the CEL cost model.
package cel
