// Package chaos runs three kanzen servers on an etcd cluster of three members while it kills, stops, cuts off and restarts
// them, and checks what clients have seen:
//
//   - Reads and compare-and-swap writes of each object are linearizable (porcupine), whichever servers they went to.
//   - Watches through all servers deliver every change once and in the order of revisions, across their own failures.
//   - Whatever was acknowledged is there in the end, and all servers list the same.
//
// A write without an answer may have been carried out or not. The watches tell: they are complete, which is checked, so a
// value that none of them has was never written.
//
// Each process has a network namespace if the test runs as root and ip(8) can make them; otherwise all are on the loopback
// interface and none is cut off. By default the test takes a minute; -chaos says how long.
package chaos
