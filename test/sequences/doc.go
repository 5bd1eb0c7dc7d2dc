// Package sequences sends random sequences of requests to kanzen and to kube-apiserver, one request after the other to both, and compares
// every answer, every event of the watches that are open meanwhile, and at the end what is stored. It finds what no single
// request shows: what an object's past does to its next write.
//
// A sequence is a list of steps, which name neither server's uids, revisions nor addresses: a step says ${rv:PATH} for the newest revision of an
// object that its server has shown, ${old:PATH} for the oldest, ${uid:PATH} for its uid. What servers choose by themselves may differ,
// but must differ always in the same way: two answers with one uid on one server have one uid on the other.
//
// A sequence with a difference is run again, to see that the difference is no matter of time, shortened while it keeps the difference, and
// printed: one step a line, which -replay takes.
package sequences
