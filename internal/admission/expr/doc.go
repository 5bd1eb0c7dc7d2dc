// Package expr is what CEL expressions see of a write under admission, and the
// match conditions that webhooks and policies have in common.
package expr
