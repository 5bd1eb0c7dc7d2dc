//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/kanzen-io/kanzen/test/machine"
)

// podStage is the stage that becomes the program of a pod.
const podStage = "pod"

// container is the program of a pod, and what it sees.
type container struct {
	Folder  string // has the folders upper, work and root
	Volumes string // the folder of the pod's volumes
	Address string
	Search  string // the domain in which it finds services by their names alone
	Dir     string
	Program string
	Places  []string // where its image has the program; without them it is the program whatever the first argument says
	Args    []string // the first is its name
	Env     []string
	Mounts  []mount
	Image   map[string]string // what its image has beside the program, and from where
}

// write writes the description into a file, for the stage that becomes the program.
func (c *container) write(path string) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o600)
}

// mount is a file or folder of the volumes, and where the program sees it.
type mount struct{ Volume, At string }

// runPod makes this process the program of the container that a file describes. It has namespaces of its own already; a line on the input says
// that it has a network too.
func runPod(args []string) error {
	b, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var c container
	if err := json.Unmarshal(b, &c); err != nil {
		return err
	}
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return fmt.Errorf("waiting for a network: %w", err)
	}
	if err := machine.SetAddress(c.Address); err != nil {
		return err
	}
	if err := c.enter(); err != nil {
		return err
	}
	if err := os.Chdir(c.Dir); err != nil {
		return err
	}
	path, err := c.path()
	if err != nil {
		return err
	}
	return fmt.Errorf("starting %s: %w", c.Program, syscall.Exec(path, c.Args, c.Env))
}

// path is the program's, in the root of the pod.
func (c *container) path() (string, error) {
	if len(c.Places) == 0 {
		return "/program", nil
	}
	for _, e := range c.Env {
		if path, is := strings.CutPrefix(e, "PATH="); is {
			if err := os.Setenv("PATH", path); err != nil {
				return "", err
			}
		}
	}
	return exec.LookPath(c.Args[0])
}

// enter makes the root of this process one that has all of the machine's disk and keeps what is written to itself, with the program and the volumes.
func (c *container) enter() error {
	at := func(name string) string { return filepath.Join(c.Folder, name) }
	root := at("root")
	for _, name := range []string{"upper", "work", "root"} {
		if err := os.RemoveAll(at(name)); err != nil { // of a former run of the program
			return err
		}
		if err := os.MkdirAll(at(name), 0o755); err != nil {
			return err
		}
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := syscall.Mount("overlay", root, "overlay", 0, "lowerdir=/,upperdir="+at("upper")+",workdir="+at("work")); err != nil {
		return fmt.Errorf("mounting the root of a pod: %w", err)
	}
	binds := []mount{{"/dev", "/dev"}, {"/sys", "/sys"}, {c.Program, "/program"}, {c.Volumes, "/volumes"}}
	for _, at := range c.Places {
		binds = append(binds, mount{c.Program, at})
	}
	for to, from := range c.Image {
		binds = append(binds, mount{from, to})
	}
	for _, b := range binds {
		if err := bind(b.Volume, filepath.Join(root, b.At)); err != nil {
			return err
		}
	}
	if err := syscall.Chroot(root); err != nil {
		return err
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	for _, dir := range []string{"/run", "/tmp"} {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=1777"); err != nil {
			return fmt.Errorf("mounting %s: %w", dir, err)
		}
	}
	if err := os.RemoveAll("/etc/resolv.conf"); err != nil { // elsewhere it is a link
		return err
	}
	resolver := fmt.Sprintf("nameserver %s\nsearch %s\n", machine.Address, c.Search)
	if err := os.WriteFile("/etc/resolv.conf", []byte(resolver), 0o644); err != nil {
		return err
	}
	for _, m := range c.Mounts {
		if err := bind(filepath.Join("/volumes", m.Volume), m.At); err != nil {
			return err
		}
	}
	return nil
}

// bind shows a file or folder at another place, which is made if it is not there.
func bind(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(to, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(to), 0o755); err == nil {
		var f *os.File
		if f, err = os.OpenFile(to, os.O_CREATE, 0o644); err == nil {
			err = f.Close()
		}
	}
	if err != nil {
		return err
	}
	if err := syscall.Mount(from, to, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return fmt.Errorf("mounting %s at %s: %w", from, to, err)
	}
	return nil
}
