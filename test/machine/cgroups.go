//go:build linux

package machine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const cgroupRoot = "/sys/fs/cgroup"

// hierarchies are the roots of control groups: one, or in the first version one for each controller.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
		return []string{cgroupRoot}, nil
	}
	found, err := filepath.Glob(filepath.Join(cgroupRoot, "*", "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, errors.New(cgroupRoot + " has no control groups")
	}
	for i, path := range found {
		found[i] = filepath.Dir(path)
	}
	return found, nil
}

// MakeCgroups makes the group of a node below that of a run. Its kubelet makes those of pods below it.
func MakeCgroups(group, node string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		dir := root
		for _, name := range []string{group, node} {
			if err := delegate(dir); err != nil {
				return err
			}
			below := filepath.Join(dir, name)
			if err := os.Mkdir(below, 0o755); err != nil && !os.IsExist(err) {
				return err
			}
			// A group of the first version begins with no processor, and then takes no process.
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				if b, err := os.ReadFile(filepath.Join(dir, file)); err == nil && root != cgroupRoot {
					if err := os.WriteFile(filepath.Join(below, file), b, 0); err != nil {
						return err
					}
				}
			}
			dir = below
		}
		if err := delegate(dir); err != nil {
			return err
		}
	}
	return nil
}

// delegate gives the groups below one of the second version all controllers that it has.
func delegate(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || strings.TrimSpace(string(b)) == "" {
		return err
	}
	controllers := "+" + strings.Join(strings.Fields(string(b)), " +")
	return os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte(controllers), 0)
}

// RemoveCgroups removes the groups of a run whose processes have all been killed. The kernel may still count the last of them.
func RemoveCgroups(group string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		err = nil
		for _, root := range roots {
			err = errors.Join(err, removeGroup(filepath.Join(root, group)))
		}
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

// removeGroup removes a group and those below it. The files in a group go with it.
func removeGroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, removeGroup(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(err, os.Remove(dir))
}

// tunables are settings of the kernel that a kubelet changes for the whole machine.
var tunables = []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"}

// KeepTunables returns what gives the kernel back the settings that it has now.
func KeepTunables() (restore func() error) {
	before := map[string][]byte{}
	for _, name := range tunables {
		path := filepath.Join("/proc/sys", name)
		if b, err := os.ReadFile(path); err == nil {
			before[path] = b
		}
	}
	return func() (err error) {
		for path, b := range before {
			err = errors.Join(err, os.WriteFile(path, b, 0))
		}
		return err
	}
}
