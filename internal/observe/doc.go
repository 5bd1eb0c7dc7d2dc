// Package observe shows operators what happens: metrics and spans of requests, the flight recorder, findings, the console. It reads
// what other packages record. Nothing that serves requests depends on it.
package observe
