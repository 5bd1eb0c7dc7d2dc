package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// collectLater puts off the first garbage collection until the heap has 20 MB. A start allocates twice as much; with
// eight collections on the way a fifth of its time is theirs, and with none what is kept is strewn over so many pages that an idle
// server has 3 MB more. From the first one on the heap grows as it always does.
func collectLater() {
	if os.Getenv("GOGC") != "" {
		return
	}
	percent := debug.SetGCPercent(500)
	type garbage [64]byte
	runtime.AddCleanup(new(garbage), func(percent int) { debug.SetGCPercent(percent) }, percent)
}

// giveBack collects what a start has left behind, and returns its memory to the system.
func giveBack() { debug.FreeOSMemory() }
