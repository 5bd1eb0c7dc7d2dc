// Package webhook asks webhooks to change (mutating) or refuse (validating)
// writes, as MutatingWebhookConfigurations and ValidatingWebhookConfigurations
// say.
//
// Configurations are read off their views on every write and compiled again
// when the view has changed (set.go). Which webhooks mean a write is found by
// internal/admission/match, which for a write that none means costs a look
// into a map. Mutating webhooks are called one after the other, each seeing
// what the one before has done, and those that ask for it once more if later
// ones have changed the object (mutating.go); validating ones all at once
// (validating.go). A call (call.go) is one HTTP request with an AdmissionReview
// (review.go), over connections that are kept (client.go). Nothing is locked
// while a webhook is asked, so one may make requests to this server, and no
// call outlasts its timeout or that of the write.
package webhook
