// Package base is the ground floor: folders that know nothing of Kubernetes and of each other little. Locks on files, the work queue
// of controllers, spans, histograms, logs, clocks. Anything may use them.
package base
