//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// scriptsStage is the first argument of this program where it runs the scripts: as process 1 of namespaces of their own. The scripts use
// ports and files of fixed names, kill processes and leave some behind; when process 1 ends, the kernel ends and removes all of them.
const scriptsStage = "stage-scripts"

const namespaces = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC

// ownFolders are those of which the scripts have their own, in memory.
var ownFolders = []string{"/tmp", "/var/tmp"}

// run runs the groups in the tree, all of them if settings name none.
func (t *tree) run(ctx context.Context, s settings, groups []group) (*result, error) {
	log, err := os.Create(filepath.Join(s.out(), "log.txt"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	// kubectl waits forever for what kube-controller-manager would do, if that has ended.
	limit := time.AfterFunc(s.limit, cancel)
	defer limit.Stop()
	variable := ""
	if len(s.groups) > 0 {
		variable = what(groups)
	}
	// The kernel kills the stage when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(limited, "/proc/self/exe", scriptsStage, t.dir, variable)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Pdeathsig: syscall.SIGKILL, Setpgid: true}
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	r := newResult(t.version)
	begin := func() { limit.Reset(s.limit) }
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("making namespaces (this needs root): %w", err)
	}
	followed := make(chan error, 1)
	go func() {
		err := r.follow(io.TeeReader(out, log), time.Now, begin, s.out())
		_, _ = io.Copy(io.Discard, out)
		followed <- err
	}()
	ended := cmd.Wait()
	in.Close()
	if err := <-followed; err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if len(r.Groups) == 0 {
		return nil, fmt.Errorf("the scripts ended before the first group (%w); see %s", ended, log.Name())
	}
	if ended != nil && r.allPassed(groups) {
		return nil, fmt.Errorf("the scripts failed outside all groups: %w; see %s", ended, log.Name())
	}
	return r, nil
}

// scripts runs the scripts in the namespaces of this process.
func scripts(dir, variable string) error {
	certificate, err := isolate()
	if err != nil {
		return err
	}
	served, err := serveSources(dir, certificate)
	if err != nil {
		return err
	}
	defer served.Close()
	cmd := exec.Command(filepath.Join(dir, "hack/make-rules/test-cmd.sh"))
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stdout, os.Stderr
	cmd.Env = []string{"PATH=" + filepath.Join(dir, binaries) + ":" + os.Getenv("PATH"), "TERM=xterm", "HOME=/tmp", "TMPDIR=/tmp", "SSL_CERT_FILE=" + certificate,
		"ETCD_LOGFILE=" + filepath.Join(filepath.Dir(dir), "etcd.log")}
	if variable != "" {
		cmd.Env = append(cmd.Env, variable)
	}
	return cmd.Run()
}

// isolate makes the network and the folders of the scripts, and returns the file of the certificate that they trust. kube-apiserver wants
// an address other than the loopback's, with a default route: it leads nowhere.
func isolate() (certificate string, err error) {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return "", fmt.Errorf("making mounts private: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return "", fmt.Errorf("mounting /proc: %w", err)
	}
	for _, folder := range ownFolders {
		if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "mode=1777"); err != nil {
			return "", fmt.Errorf("mounting %s: %w", folder, err)
		}
	}
	for _, args := range []string{
		"link set lo up", "link add scripts type veth peer name nowhere", "address add 192.0.2.1/24 dev scripts", "link set nowhere up",
		"link set scripts up", "route add default via 192.0.2.2",
	} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("ip %s: %w: %s", args, err, out)
		}
	}
	// Without a name server, a name is unknown at once.
	for path, content := range map[string]string{"/etc/hosts": "127.0.0.1 localhost " + sourceHost + "\n", "/etc/resolv.conf": ""} {
		own := filepath.Join("/var/tmp", filepath.Base(path))
		if err := os.WriteFile(own, []byte(content), 0o644); err != nil {
			return "", err
		}
		if err := syscall.Mount(own, path, "", syscall.MS_BIND, ""); err != nil {
			return "", fmt.Errorf("mounting %s: %w", path, err)
		}
	}
	return "/var/tmp/sources.crt", nil
}
