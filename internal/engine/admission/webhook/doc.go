// Package webhook calls webhooks that change (mutating) or refuse (validating)
// writes, as MutatingWebhookConfigurations and ValidatingWebhookConfigurations
// say.
//
// Configurations are read from their views, and compiled again after a change
// (set.go). internal/engine/admission/match finds the webhooks for a write; a write
// that matches none costs a map lookup. Mutating webhooks are called one after
// the other, and each sees the changes of those before. Those that ask for it
// are called once more if later ones have changed the object (mutating.go).
// Validating webhooks are called in parallel (validating.go). A call (call.go)
// is one HTTP request with an AdmissionReview (review.go), over kept-alive
// connections (client.go). No lock is held during a call, so a webhook may send
// requests to this server, and no call outlasts its timeout or that of the
// write.
package webhook
