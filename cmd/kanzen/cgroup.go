package main

import (
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
)

// limitHeap makes collections more frequent where the memory that this process may have comes to an end, unless the user
// says by GOMEMLIMIT where that is. The rest is for what Go does not count: pages of the database's file, which the kernel
// takes back by itself.
func limitHeap() {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if limit := memoryLimit("/"); limit < math.MaxInt64 {
		debug.SetMemoryLimit(limit / 10 * 9)
	}
}

// memoryLimit is the least memory.max, in bytes, of the control groups (version 2) around this process; without one,
// math.MaxInt64. root is that of the file system.
func memoryLimit(root string) int64 {
	least := int64(math.MaxInt64)
	groups, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return least
	}
	for line := range strings.Lines(string(groups)) {
		group, found := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !found {
			continue
		}
		for dir := path.Join("/", group); ; dir = path.Dir(dir) {
			text, err := os.ReadFile(filepath.Join(root, "sys/fs/cgroup", dir, "memory.max"))
			if n, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && bad == nil {
				least = min(least, n)
			}
			if dir == "/" {
				break
			}
		}
	}
	return least
}
