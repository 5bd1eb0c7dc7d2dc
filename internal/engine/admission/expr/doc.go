// Package expr gives CEL expressions the variables that describe a write under
// admission. It also has the match conditions, which webhooks and policies
// share.
package expr
