//go:build linux

package machine

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// StartNode starts a command in namespaces of its own, and gives it a network. It calls BeginNode first.
func StartNode(l Layout, number int, namespaces uintptr, ended func(string, error), cmd *exec.Cmd) (*Daemon, error) {
	if err := MakeCgroups(l.Group, NodeName(number)); err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	connected, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	d, err := Start(l.Log(NodeName(number)), ended, cmd)
	if err != nil {
		return nil, err
	}
	if err := Connect("to-"+NodeName(number), cmd.Process.Pid); err != nil {
		return nil, err
	}
	_, err = connected.Write([]byte("connected\n"))
	return d, err
}

// BeginNode gives the process of a node its network, its name and its disk. The overlays are folders of the machine in which the node sees its
// own changes.
func BeginNode(l Layout, number, nodes int, overlays ...string) error {
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return fmt.Errorf("waiting for a network: %w", err)
	}
	if err := configure(number, nodes); err != nil {
		return err
	}
	if err := syscall.Sethostname([]byte(NodeName(number))); err != nil {
		return err
	}
	return disk(l, number, overlays)
}

// Environment finds the programs that containerd and kubelet start.
func Environment(l Layout) []string {
	return append(os.Environ(), "PATH="+l.Programs+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
}

// disk gives the node a /var, /tmp and /run of its own: its programs write there, and to the overlays, and nowhere else. What is in them
// stays when the node ends, but for /run. Mounts below them are shared with containers that ask for it.
func disk(l Layout, number int, overlays []string) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	for _, dir := range []string{"/var", "/tmp"} {
		own := filepath.Join(l.Node(number), dir)
		for _, below := range []string{"", "lib", "log", "tmp"} {
			if err := os.MkdirAll(filepath.Join(own, below), 0o755); err != nil {
				return err
			}
		}
		if err := syscall.Mount(own, dir, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", dir, err)
		}
	}
	for _, dir := range overlays {
		if err := overlay(l, number, dir); err != nil {
			return err
		}
	}
	if err := os.Symlink("/run", "/var/run"); err != nil && !os.IsExist(err) {
		return err
	}
	if err := os.Chmod("/tmp", 0o1777); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", "/run", "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mounting /run: %w", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, ""); err != nil {
		return fmt.Errorf("sharing mounts: %w", err)
	}
	return nil
}

func overlay(l Layout, number int, dir string) error {
	upper, work := filepath.Join(l.Node(number), "upper", dir), filepath.Join(l.Node(number), "work", dir)
	for _, own := range []string{upper, work} {
		if err := os.MkdirAll(own, 0o755); err != nil {
			return err
		}
	}
	if err := syscall.Mount("overlay", dir, "overlay", 0, "lowerdir="+dir+",upperdir="+upper+",workdir="+work); err != nil {
		return fmt.Errorf("mounting an overlay on %s: %w", dir, err)
	}
	return nil
}

// Containerd starts containerd and imports the images, and those of other archives.
func Containerd(ctx context.Context, l Layout, number int, ended func(string, error), archives ...string) error {
	cmd := exec.Command(l.Program("containerd"), "--config="+l.Config(number, "containerd.toml"))
	cmd.Env = Environment(l)
	if _, err := Start(l.Log(NodeName(number)+"-containerd"), ended, cmd); err != nil {
		return err
	}
	ctr := func(ctx context.Context, args ...string) error {
		out, err := exec.CommandContext(ctx, l.Program("ctr"), append([]string{"--namespace=k8s.io"}, args...)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ctr %v: %w: %s", args, err, out)
		}
		return nil
	}
	if err := Eventually(ctx, time.Minute, "containerd answers", func(ctx context.Context) error { return ctr(ctx, "version") }); err != nil {
		return err
	}
	for _, archive := range append([]string{l.Images()}, archives...) {
		if err := ctr(ctx, "images", "import", "--local", archive); err != nil {
			return err
		}
	}
	return nil
}
