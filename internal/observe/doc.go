// Package observe tells operators what happens: metrics and spans of requests, the flight recorder, findings, the console. It measures
// at the edge of a request and reads what others keep; nothing that serves requests depends on it.
package observe
