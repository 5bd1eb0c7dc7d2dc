// Package planes has many control planes in one process: each a whole Kubernetes API with users, kinds, controllers and keys of its
// own, below a control plane that lists them, the root. A Plane object there is one; it is at /planes/NAME of the root's port.
//
// A control plane that nobody uses is asleep: it is an object in the root, its keys in a secret, and its objects in the log; the
// process holds some hundred bytes for it. The first request starts it (a server.Plane below a prefix of its own), and some time
// after the last one it is stopped.
//
// Fleet is a client of the root as any program could be one: it follows Planes, makes their secrets and tells their status through
// the root's API. What it has beside that is the process, on which it starts the others.
//
// Nothing outside may touch the objects of a plane but through its API; its prefix in the log is its UID's, so that one of the same
// name that comes after it finds nothing of it.
package planes
