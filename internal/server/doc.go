// Package server makes control planes. A Plane is one that can be started and
// stopped again and again. For each run, assemble makes the parts of a server,
// in stages: assembly.go is the only file that knows all of them, and reads top
// to bottom. run starts them in the order of work and stops them in
// reverse. What a part does, and how it is made of its own parts, stands elsewhere.
package server
