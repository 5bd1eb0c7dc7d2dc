package side

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Programs are the files that the sides are made of.
type Programs struct {
	APIServer, Etcd string // Peer
	Kanzen          string // Kanzen
	Self            string // this program, which is also Bare
}

// Build finds the programs of the named sides. kanzen is a binary, and peerBin
// a directory with kube-apiserver and etcd; what is empty is built by make from
// this repository, the peer from peer/.
func Build(ctx context.Context, kanzen, peerBin string, names ...string) (p Programs, err error) {
	if p.Self, err = os.Executable(); err != nil {
		return p, err
	}
	for _, name := range names {
		switch name {
		case Peer:
			err = p.buildPeer(ctx, peerBin)
		case Kanzen, Pebble:
			if p.Kanzen != "" {
				continue
			}
			err = p.buildKanzen(ctx, kanzen)
		}
		if err != nil {
			return p, err
		}
	}
	return p, nil
}

func (p *Programs) buildPeer(ctx context.Context, bin string) error {
	if bin == "" {
		dir, err := Module(ctx)
		if err != nil {
			return err
		}
		bin = filepath.Join(dir, "peer", "bin")
		fmt.Fprintln(os.Stderr, "building the peer (minutes, the first time)")
		if err := runMake(ctx, filepath.Dir(bin), "bin/kube-apiserver", "bin/etcd"); err != nil {
			return err
		}
	}
	var err error
	if p.APIServer, err = found(filepath.Join(bin, "kube-apiserver")); err != nil {
		return err
	}
	p.Etcd, err = found(filepath.Join(bin, "etcd"))
	return err
}

func (p *Programs) buildKanzen(ctx context.Context, file string) (err error) {
	if file == "" {
		dir, err := Module(ctx)
		if err != nil {
			return err
		}
		file = filepath.Join(filepath.Dir(dir), "bin", "kanzen")
		fmt.Fprintln(os.Stderr, "building kanzen")
		if err := runMake(ctx, filepath.Dir(dir), "build"); err != nil {
			return err
		}
	}
	p.Kanzen, err = found(file)
	return err
}

// found is the absolute path of a file that is there: processes of a side do
// not run in this one's directory.
func found(file string) (string, error) {
	if _, err := os.Stat(file); err != nil {
		return "", err
	}
	return filepath.Abs(file)
}

// Module is the directory of this module's source.
func Module(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(strings.TrimSpace(string(out)))
	if filepath.Base(dir) != "bench" {
		return "", fmt.Errorf("run it in the folder bench, where its source is")
	}
	return dir, nil
}

// runMake runs make in dir.
func runMake(ctx context.Context, dir string, targets ...string) error {
	cmd := exec.CommandContext(ctx, "make", targets...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make %s in %s: %w\n%s", strings.Join(targets, " "), dir, err, out)
	}
	return nil
}
