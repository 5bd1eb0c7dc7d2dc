// Package audit writes down what was asked of the server, by whom and with
// what outcome. A Policy says how much of which requests; an Auditor makes the
// events of a request, one at each stage of it; Backends keep them: a log file,
// a webhook.
//
//	Auditor ─ Record.Stage ─▶ Truncated ─▶ Batch or Blocking ─▶ Log, Webhook
//
// Events are those of the API group audit.k8s.io/v1, in the files and
// requests that kube-apiserver writes. Nothing is in an event beyond the level
// that the policy sets: what a level leaves out is never encoded.
package audit
