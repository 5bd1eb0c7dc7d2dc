// Package debug serves the pages about a server itself: health, /statusz and /flagz, profiles, and the verbosity of its
// log, which can change at run time. The caller decides which health checks and pages there are.
package debug
