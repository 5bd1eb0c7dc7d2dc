// Package debug serves the pages about a server itself: health, /statusz and
// /flagz, profiles, and the verbosity of its log, which can be changed while it
// runs. What is healthy and which pages are shown is decided by the caller.
package debug
