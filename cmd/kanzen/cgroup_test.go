package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

// TestMemoryLimit reads the limits of control groups.
func TestMemoryLimit(t *testing.T) {
	for _, c := range []struct {
		what, own string
		limits    map[string]string
		want      int64
	}{
		{"no control groups", "", nil, math.MaxInt64},
		{"the first version", "9:memory:/a\n", map[string]string{"a": "5"}, math.MaxInt64},
		{"a container", "0::/\n", map[string]string{".": "536870912\n"}, 512 << 20},
		{"no limit", "0::/a\n", map[string]string{"a": "max\n"}, math.MaxInt64},
		{"a unit in a slice", "0::/a/b\n", map[string]string{"a/b": "300\n", "a": "200\n"}, 200},
		{"above the root", "0::/../../a\n", map[string]string{"a": "7"}, 7},
	} {
		root := t.TempDir()
		write := func(path, text string) {
			path = filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if c.own != "" {
			write("proc/self/cgroup", c.own)
		}
		for group, limit := range c.limits {
			write(filepath.Join("sys/fs/cgroup", group, "memory.max"), limit)
		}
		if got := memoryLimit(root); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}
