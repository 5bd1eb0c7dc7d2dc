// Package base is the ground floor. Its folders know nothing about Kubernetes and little about each other: file locks, the work
// queue of controllers, spans, histograms, logs, clocks. Everything above may use them.
package base
