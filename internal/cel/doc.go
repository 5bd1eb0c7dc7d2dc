// Package cel compiles and evaluates the CEL expressions by which webhooks and
// policies look at a write.
//
// An expression is compiled once per text and scope, and shared by all who
// have it: a Compiler keeps what is in use and no more. Evaluation is bounded
// twice, by what the environment lets one expression cost and by the budget of
// a Run, in the units of the CEL cost model.
package cel
