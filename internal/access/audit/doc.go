// Package audit records requests: the user, the action and the result. A Policy says how much is recorded of which
// requests; an Auditor creates the events of a request, one for each stage; Backends store them: a log file or a
// webhook.
//
//	Auditor ─ Record.Stage ─▶ Truncated ─▶ Batch or Blocking ─▶ Log, Webhook
//
// Events have the API version audit.k8s.io/v1, and the format of files and webhook requests is kube-apiserver's. An
// event contains nothing above its policy's level: what the level leaves out is never encoded.
package audit
