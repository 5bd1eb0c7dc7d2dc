// Package audit holds the audit log of kanzen against kube-apiserver's: the
// same requests, at each level of the policy, must leave the same events.
// What kube-apiserver 1.37.2 writes is recorded in testdata:
//
//	go test ./audit -record -peer ../../bench/peer/bin
package audit
