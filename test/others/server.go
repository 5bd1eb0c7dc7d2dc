package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kanzen-io/kanzen/test/evidence"
	"github.com/kanzen-io/kanzen/test/suite"
)

// server is one that suites run on.
type server struct {
	name, version string
	assets        string
	env           []string // has envtest find it
}

func makeServers(s settings) ([]server, error) {
	kubectl := filepath.Join(s.cache, "kubectl")
	if err := command(".", "../release/kubectl/build.sh", kubectl); err != nil {
		return nil, err
	}
	assets := filepath.Join(s.cache, "assets")
	if err := os.RemoveAll(assets); err != nil {
		return nil, err
	}
	ofKanzen, ofPeer := filepath.Join(assets, "made-by-kanzen"), filepath.Join(assets, "of-peer")
	if err := command(".", s.kanzen, "assets", "--dir", ofKanzen); err != nil {
		return nil, err
	}
	if err := link(ofPeer, filepath.Join(s.peer, "kube-apiserver"), filepath.Join(s.peer, "etcd")); err != nil {
		return nil, err
	}
	var servers []server
	for _, of := range []struct{ name, dir string }{{evidence.Kanzen, ofKanzen}, {evidence.Peer, ofPeer}} {
		server, err := makeServer(of.name, of.dir, filepath.Join(assets, of.name), kubectl)
		if err != nil {
			return nil, err
		}
		servers = append(servers, server)
	}
	return servers, nil
}

// makeServer puts programs where setup-envtest keeps those that it has downloaded: suites that would download them find them there, and
// the others are told of the folder, or of each program.
func makeServer(name, programs, data, kubectl string) (server, error) {
	version, err := suite.Version(filepath.Join(programs, "kube-apiserver"))
	if err != nil {
		return server{}, err
	}
	number, _, _ := strings.Cut(version, "+")
	dir := filepath.Join(data, "kubebuilder-envtest", "k8s", fmt.Sprintf("%s-%s-%s", number, runtime.GOOS, runtime.GOARCH))
	env := []string{
		"KUBEBUILDER_ASSETS=" + dir, "XDG_DATA_HOME=" + data, "K8S_VERSION=" + number,
		"KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=1m", "KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT=1m", // machines are busy
	}
	for _, program := range []string{"etcd", "kube-apiserver", "kubectl"} {
		variable := "TEST_ASSET_" + strings.ReplaceAll(strings.ToUpper(program), "-", "_")
		env = append(env, variable+"="+filepath.Join(dir, program))
	}
	return server{name, version, dir, env}, link(dir, filepath.Join(programs, "kube-apiserver"), filepath.Join(programs, "etcd"), kubectl)
}

// start starts the server with definitions, and writes its administrator's kubeconfig.
func (s *server) start(crds, kubeconfig string) (stop func(), err error) {
	env := &envtest.Environment{
		BinaryAssetsDirectory: s.assets, CRDDirectoryPaths: []string{crds}, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: time.Minute, ControlPlaneStopTimeout: time.Minute, // machines are busy
	}
	if _, err := env.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.name, err)
	}
	stop = func() { _ = env.Stop() }
	if err := os.WriteFile(kubeconfig, env.KubeConfig, 0o600); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// link makes a folder with links to programs.
func link(dir string, programs ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, program := range programs {
		target, err := filepath.EvalSymlinks(program)
		if err != nil {
			return err
		}
		if err := os.Symlink(target, filepath.Join(dir, filepath.Base(program))); err != nil {
			return err
		}
	}
	return nil
}

// command runs a program to its end, and returns what it prints if it fails.
func command(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return nil
}
