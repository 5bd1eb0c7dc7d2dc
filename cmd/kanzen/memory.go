package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// collectLater puts off the first garbage collection until the heap has 40 MB. A start allocates about as much; with
// eight collections on the way a fifth of its time is theirs. From the first one on the heap grows as it always does.
func collectLater() {
	if os.Getenv("GOGC") != "" {
		return
	}
	percent := debug.SetGCPercent(1000)
	type garbage [64]byte
	runtime.AddCleanup(new(garbage), func(percent int) { debug.SetGCPercent(percent) }, percent)
}

// giveBack collects what a start has left behind, and returns its memory to the system.
func giveBack() { debug.FreeOSMemory() }
